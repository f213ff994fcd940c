"""What the page says about the workers of a cluster."""

from __future__ import annotations

from typing import Any


def worker_facts(event: dict[str, Any]) -> dict[str, str]:
    """Return the facts of the latest round; none if the event lacks them.

    Parameters
    ----------
    event : dict
        The latest event about a round, or an empty one.

    Examples
    --------
    >>> workers = [{"samples": 500, "read_seconds": 0.1, "learn_seconds": 0.4}] * 2
    >>> event = {"workers": workers, "round_seconds": 0.55, "merge_seconds": 0.03, "left": 9000, "replaced": 0}
    >>> worker_facts(event)["workers"], worker_facts(event)["round"]
    ('2, at 1,000, 1,000 samples/s', '0.55 s, of which 0.03 s merging')
    """
    try:
        rates = [w["samples"] / max(w["read_seconds"] + w["learn_seconds"], 1e-6) for w in event["workers"]]
        facts = {
            "workers": f"{len(rates)}, at {', '.join(f'{rate:,.0f}' for rate in rates)} samples/s",
            "round": f"{event['round_seconds']:.3g} s, of which {event['merge_seconds']:.3g} s merging",
            "rows left": f"{event['left']:,}",
        }
        if event["replaced"]:
            facts["workers replaced"] = f"{event['replaced']:,}"
    except (KeyError, TypeError, ValueError):
        return {}
    return facts
