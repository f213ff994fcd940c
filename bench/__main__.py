"""`python -m bench [--quick] [--out FOLDER]`: speed as ratios taken in one run, as Markdown and JSON."""

from __future__ import annotations

import argparse
from pathlib import Path

from threadpoolctl import threadpool_limits

from bench import alternatives, page, report, steps, streams, threads

GROUPS = {
    "memory": threads.memory,  # first: it looks at the peak of the whole process
    "limits": steps.limits,
    "abandoning": steps.abandoning,
    "batches": steps.batches,
    "peers": alternatives.sample_by_sample,
    "scoring": alternatives.scoring,
    "threads": threads.two_threads,
    "streams": streams.sources,
    "page": page.looked_at,
    "race": alternatives.until_as_good,
}
ALL_CORES = {"race"}  # scikit-learn may use them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds: under three minutes")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), help="some groups; other tables of the report stay")
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
    print(f"wrote report.md and report.json to {chosen.out}")


if __name__ == "__main__":
    main()
