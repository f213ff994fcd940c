"""Kernels under valgrind: ``python -m tests.kernels.under_valgrind`` prints errors that passed through our code.

Valgrind follows every access to memory, also those of values that nobody has written, which sanitizers do not see. It
runs the program some fifty times slower and knows no AVX-512, so models are small. Python and NumPy have errors of
their own in it; only those are counted whose stack holds the extension.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

EXTENSION = "_native"
INSIDE = "--inside"


def learn_and_score() -> None:
    """Call the kernels of every rule and covariance kind, for both float types and every width."""
    import numpy as np

    from streamgmm.core.settings import Settings
    from streamgmm.core.trainer import Trainer
    from streamgmm.engines import Serial, engine_for
    from streamgmm.native import use_width, widths

    rows = np.random.default_rng(0).normal(0.5, 0.2, (130, 7))
    with_gaps = np.where(np.random.default_rng(1).random(rows.shape) < 0.1, np.nan, rows)
    kinds = [("diag", rule) for rule in ("natural", "sgd", "sem")]
    kinds += [(kind, rule) for kind in ("full", "low_rank") for rule in ("natural", "sem")]
    for width in widths():
        use_width(width)
        for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
            for kind, rule in kinds:
                settings = Settings(5, covariance_type=kind, rank=2, rule=rule, allow_nan=True, batch_size=3)
                trainer = Trainer(settings, 7, dtype, engine=Serial(), seed=0)
                for part in (rows, with_gaps):
                    trainer.feed(part.astype(dtype))
                trainer.flush()
                trainer.mixture.scores(with_gaps[:9].astype(dtype))
            plain = Trainer(Settings(5, scale="none"), 7, dtype, engine=engine_for(2), seed=0)
            plain.feed((255 * rows.clip(0, 1)).astype(np.uint8), 1 / 255)
            plain.mixture.scores(rows[:1].astype(dtype))
        print(f"{width}: done", flush=True)


def main() -> int:
    """Run the kernels under valgrind; return 1 if an error passed through them."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = ["valgrind", f"--log-file={log}", "--num-callers=40", sys.executable, "-m", __spec__.name, INSIDE]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONMALLOC": "malloc", "OMP_NUM_THREADS": "1"}, check=False
        )
        blocks = [b for b in log.read_text().split("== \n") if "   at 0x" in b]
        ours = [b for b in blocks if EXTENSION in b and "definitely lost" not in b]
    print(f"exit code {done.returncode}; {len(blocks)} reports, {len(ours)} of them through {EXTENSION}")
    print("\n".join(ours[:10]))
    return int(bool(ours) or done.returncode != 0)


if __name__ == "__main__":
    if INSIDE in sys.argv:
        learn_and_score()
    else:
        sys.exit(main())
