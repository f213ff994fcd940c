"""Measure speed as ratios within one run, and write a report as Markdown and JSON."""

from __future__ import annotations

import argparse
from pathlib import Path

from threadpoolctl import threadpool_limits

from bench import (
    alternatives,
    coupled,
    curves,
    latency,
    memory,
    page,
    report,
    single_rows,
    start_up,
    steps,
    streams,
    threads,
)

GROUPS = {
    "limits": steps.limits,
    "abandoning": steps.abandoning,
    "batches": steps.batches,
    "scales": steps.scales,
    "peers": alternatives.sample_by_sample,
    "scoring": alternatives.scoring,
    "coupled": coupled.coupled,
    "threads": threads.two_threads,
    "streams": streams.sources,
    "rows": single_rows.rows_and_small_models,
    "latency": latency.through_pipes,
    "start": start_up.start_up,
    "memory": memory.memory,
    "costs": curves.costs,
    "page": page.page_cost,
    "race": alternatives.until_as_good,
}
ALL_CORES = {"race"}  # scikit-learn may use all of them


def main() -> None:
    """Run the chosen groups, and update the report after each."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use fewer sizes and rounds: less than three minutes")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder for the report")
    parser.add_argument(
        "--only", nargs="+", choices=list(GROUPS), help="run some groups; keep other tables as they are"
    )
    chosen = parser.parse_args()
    tables: list[report.Table] = []
    for name in chosen.only or GROUPS:
        print(f"{name} …", flush=True)
        if name in ALL_CORES:
            tables += GROUPS[name](chosen.quick)
        else:
            with threadpool_limits(1):
                tables += GROUPS[name](chosen.quick)
        report.write(tables, chosen.out)
        if name == "costs":
            curves.draw(tables[-1], chosen.out)
    print(f"Wrote report.md and report.json to {chosen.out}.")


if __name__ == "__main__":
    main()
