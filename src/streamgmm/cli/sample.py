"""``streamgmm sample``"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from streamgmm.cli import console
from streamgmm.cli.console import CommandError
from streamgmm.cli.options import ModelPath, Shape, sample_shape

MOST_DRAWN = 1024


def sample(
    model: ModelPath,
    out: Annotated[Path, typer.Option(help="A picture (.png), or numbers (.csv, .ndjson, .npz; '-' prints CSV).")],
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="Number of samples.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    shape: Shape = None,
) -> None:
    """Draw samples from a model. Numbers are in the units of the source; pictures show what the model learned.

    Examples:

      streamgmm sample run -n 64 --out samples.png

      streamgmm sample run -n 1000 --out samples.csv
    """
    import numpy as np

    from streamgmm.sinks import open_sink
    from streamgmm.storage import load_model
    from streamgmm.storage.run_folder import model_path

    saved = load_model(model_path(model))
    mixture = saved.trainer.mixture
    if out.suffix == ".png":
        from streamgmm import plots

        if number > MOST_DRAWN:
            raise CommandError(f"a picture has room for {MOST_DRAWN} samples; write {number:,} of them to a .npz file.")
        plots.samples(mixture, number, seed, sample_shape(shape, mixture.n_features)).savefig(out, dpi=100)
        console.say(f"{number:,} samples in {out}.")
        return
    if str(out) != "-" and out.suffix not in (".csv", ".ndjson", ".npz"):
        raise CommandError(f"{out} has an unsupported extension; expected .png, .csv, .ndjson, .npz or '-'.")
    rows, components = mixture.sample(number, seed)
    if saved.scaling is not None:
        rows = saved.scaling.invert(rows)
    if out.suffix == ".npz":
        np.savez(out, x=rows, components=components)
    else:
        names = saved.feature_names or [f"x{i}" for i in range(rows.shape[1])]
        label = "component"
        while label in names:  # a feature may be called so
            label = f"_{label}"
        with open_sink(None if str(out) == "-" else out, sys.stdout) as write:
            write({**dict(zip(names, rows.T, strict=True)), label: components})
    if str(out) != "-":
        console.say(f"{number:,} samples in {out}.")
