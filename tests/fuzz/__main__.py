"""Try many cases, and write what goes wrong to ``seeds``: one file for each kind of finding."""

from __future__ import annotations

import argparse
import time

from tests.fuzz.campaign import SEEDS, run_cases
from tests.fuzz.every_format import FORMATS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--format", choices=list(FORMATS), action="append", help="all by default")
    parser.add_argument("--cases", type=int, default=1000, help="cases of each format")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--keep", action="store_true", help="write one seed for each kind of finding")
    chosen = parser.parse_args()
    for name in chosen.format or FORMATS:
        form, start = FORMATS[name], time.perf_counter()
        findings = run_cases(form, range(chosen.first, chosen.first + chosen.cases))
        kinds = {f.kind: f for f in reversed(findings)}
        took = f"{time.perf_counter() - start:.0f} s"
        print(f"{name}: {chosen.cases} cases in {took}, {len(findings)} findings of {len(kinds)} kinds", flush=True)
        for finding in kinds.values():
            print(f"  case {finding.case}: {finding.what}")
            if chosen.keep:
                (SEEDS / name).mkdir(parents=True, exist_ok=True)
                (SEEDS / name / f"{finding.kind}{form.suffix}").write_bytes(form.case(finding.case))


if __name__ == "__main__":
    main()
