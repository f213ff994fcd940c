"""Claims that the paper makes without a table, and the effect of every parameter."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from streamgmm.paper import exact_gradient, numerics, outliers, sweeps
from streamgmm.paper.comparison import ceiling, last, shown, summary
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.plan import Plan
from streamgmm.paper.runs import Results, Run
from streamgmm.paper.sweeps import GRIDS, SEEDS, SWEEPS, Sweep, names, sweep_runs

WINDOW = 9  # points of the moving mean; a curve has about 200
PATCHES = (6, 10, 14, 20, 28)
UNITS = ("samples", "seconds")


def _rules(plan: Plan) -> list[str]:
    return list(dict.fromkeys((plan.rule, "natural")))


def _pass_runs(plan: Plan, name: str, rule: str) -> list[Run]:
    passes = 2 if plan.quick else 4
    settings, part = plan.settings(rule), plan.part(name)
    return [Run(name, rule, s, passes, settings, part) for s in plan.few_seeds(name, SEEDS)]


def _patch_runs(plan: Plan, side: int) -> list[Run]:
    settings, part = plan.settings("sgd"), plan.part("mnist", patch=side)
    return [Run("mnist", "sgd", s, plan.passes, settings, part) for s in plan.few_seeds("mnist", SEEDS)]


def expected(plan: Plan) -> list[Run]:
    """Return all runs that the claims need.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return [*_all(plan), *numerics.runs(plan), *exact_gradient.expected(plan), *outliers.runs_of_layers(plan)]


def _all(plan: Plan) -> Iterable[Run]:
    yield from sweeps.runs(plan)
    yield from outliers.runs(plan)
    for name in names(plan):
        for rule in _rules(plan):
            yield from _pass_runs(plan, name, rule)
    if "mnist" in plan.names:
        for side in PATCHES:
            yield from _patch_runs(plan, side)


def results(plan: Plan) -> Results:
    """Measure the effects of parameters, and all claims that take plain runs.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return plan.run(_all(plan), "claims")


def make(plan: Plan) -> list[Table]:
    """Make the tables of the claims.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    found = results(plan)
    if not found:
        return []
    return [
        *(sweeps.table(plan, found, sweep) for sweep in SWEEPS),
        _passes(plan, found),
        _speed(plan, found),
        *([_bound(plan, found)] if "mnist" in plan.names else []),
        *numerics.make(plan),
        *exact_gradient.make(plan),
        *outliers.make(plan),
    ]


def _passes(plan: Plan, found: Results) -> Table:
    count = 2 if plan.quick else 4
    table = Table(
        "Claim: convergence within two passes",
        "Test max-component log-likelihood after each pass, and the gain of the passes after the second in percent of "
        "the largest possible value, 0.579·D.",
        ["data", "rule", *(f"pass {i + 1}" for i in range(count)), "after the second"],
    )
    for name in names(plan):
        for rule in _rules(plan):
            records = [found[r.file]["passes"] for r in _pass_runs(plan, name, rule)]
            values = [summary([p[i]["max_component"] for p in records]) for i in range(count)]
            gain = 100 * (values[-1].mean - values[1].mean) / ceiling(plan.sizes(name)[2])
            table.rows.append([plan.title(name), rule, *map(shown, values), f"{gain:+.2f} %"])
    return table


def _speed(plan: Plan, found: Results) -> Table:
    """Make the table of samples and seconds until the log-likelihood of the stream settles, by K."""
    table = Table(
        "Claim: convergence time against K",
        "Samples and seconds of one core until the max-component log-likelihood of the stream (a moving mean over a "
        "twentieth of the run) first comes within 1 % of its final value, relative to the largest possible value; "
        f"{plan.size.split(', ')[-1]}. 'exponent': slope of a straight line through the logarithms; the paper says "
        "that time grows linearly with K, which is an exponent of 1.",
        ["data", "rule", "unit", *(f"K {k}" for k in GRIDS), "exponent"],
    )
    for name in names(plan):
        for sweep in (s for s in SWEEPS if s.parameter == "n_components"):
            for unit in UNITS:
                means = _times(plan, found, sweep, name, unit)
                cells = [f"{means[k]:,.{0 if unit == 'samples' else 2}f}" if k in means else "–" for k in GRIDS]
                table.rows.append([plan.title(name), sweep.rule, unit, *cells, f"{exponent(means):.2f}"])
    return table


def _times(plan: Plan, found: Results, sweep: Sweep, name: str, unit: str) -> dict[int, float]:
    """Return the time until the stream settles, by K."""
    margin = 0.01 * ceiling(plan.sizes(name)[2])
    return {
        k: summary([settled(found[r.file], margin, unit) for r in group]).mean
        for k, group in sweep_runs(plan, sweep, name).items()
    }


def exponents(plan: Plan, found: Results) -> dict[str, list[float]]:
    """Return the exponents of SGD's convergence time over K, by unit.

    Parameters
    ----------
    plan : Plan
        What to measure.
    found : dict
        Results by record name.
    """
    sweep = next(s for s in SWEEPS if (s.parameter, s.rule) == ("n_components", "sgd"))
    return {unit: [exponent(_times(plan, found, sweep, n, unit)) for n in names(plan)] for unit in UNITS}


def settled(record: dict[str, list[list[float]]], margin: float, unit: str = "samples") -> float:
    """Return when a moving mean of a run's curve first comes within ``margin`` of its end; single points are noisy.

    Parameters
    ----------
    record : dict
        Curve of a run, and its seconds by samples.
    margin : float
        How near, in nats.
    unit : {"samples", "seconds"}, default="samples"
        What to count.
    """
    curve = record["curve"]
    if len(curve) < WINDOW:
        return float("nan")
    smooth = np.convolve([row[2] for row in curve], np.ones(WINDOW) / WINDOW, mode="valid")
    samples = float(curve[int(np.argmax(smooth >= smooth[-1] - margin)) + WINDOW // 2][0])
    if unit == "samples":
        return samples
    known, seconds = zip(*record["times"], strict=True)
    return float(np.interp(samples, (0, *known), (0, *seconds)))


def exponent(times: dict[int, float]) -> float:
    """Return the slope of a straight line through logarithms of times over logarithms of sizes.

    Parameters
    ----------
    times : dict
        Times by size.

    Examples
    --------
    >>> round(exponent({16: 2.0, 64: 8.0, 256: 32.0}), 3)
    1.0
    """
    known = {k: t for k, t in times.items() if np.isfinite(t) and t > 0}
    if len(known) < 2:
        return float("nan")
    return float(np.polyfit(np.log(list(known)), np.log(list(known.values())), 1)[0])


def _bound(plan: Plan, found: Results) -> Table:
    table = Table(
        "Claim: the max-component bound is tight in many dimensions",
        "SGD on patches from the middle of MNIST images: exact and max-component log-likelihood of test data, their "
        f"difference in nats (at most log K = {np.log(plan.components):.2f}), and the mean maximum responsibility.",
        ["patch", "D", "exact", "max-component", "difference", "max p"],
    )
    for side in PATCHES:
        group = _patch_runs(plan, side)
        exact, top = last(found, group, "log_likelihood"), last(found, group, "max_component")
        table.rows.append(
            [f"{side}×{side}", side * side, shown(exact, 2), shown(top, 2), f"{exact.mean - top.mean:.3f}",
             f"{last(found, group, 'responsibility').mean:.4f}"]
        )  # fmt: skip
    return table
