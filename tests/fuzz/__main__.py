"""Try many cases, and write what goes wrong to ``seeds``: one file for each kind of finding."""

from __future__ import annotations

import argparse
import time

from tests.fuzz.campaign import SEEDS, run
from tests.fuzz.every_format import FORMATS
from tests.fuzz.formats import Format
from tests.fuzz.sweep import sweep

SWEPT = ("model", "stack")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--format", choices=list(FORMATS), action="append", help="all by default")
    parser.add_argument("--cases", type=int, default=1000, help="cases of each format")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--sweep", action="store_true", help="every place of safetensors files with every odd value")
    parser.add_argument("--keep", action="store_true", help="write one seed for each kind of finding")
    chosen = parser.parse_args()
    for name in chosen.format or FORMATS:
        form = FORMATS[name]
        if chosen.sweep:
            for example in form.examples() if name in SWEPT else ():
                _try(form, list(enumerate(sweep(example))), chosen.keep)
        else:
            _try(form, [(n, None) for n in range(chosen.first, chosen.first + chosen.cases)], chosen.keep)


def _try(form: Format, cases: list[tuple[int, bytes | None]], keep: bool) -> None:
    start = time.perf_counter()
    findings = run(form, cases)
    kinds, took = {f.kind: f for f in reversed(findings)}, f"{time.perf_counter() - start:.0f} s"
    print(f"{form.name}: {len(cases)} cases in {took}, {len(findings)} findings of {len(kinds)} kinds", flush=True)
    contents = dict(cases)
    for finding in kinds.values():
        print(f"  case {finding.case}: {finding.what}", flush=True)
        if keep:
            (SEEDS / form.name).mkdir(parents=True, exist_ok=True)
            content = contents[finding.case] or form.case(finding.case)
            (SEEDS / form.name / f"{finding.kind}{form.suffix}").write_bytes(content)


if __name__ == "__main__":
    main()
