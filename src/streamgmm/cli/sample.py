"""``streamgmm sample``"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from streamgmm.cli import console
from streamgmm.cli.console import CommandError
from streamgmm.cli.options import ModelPath, Shape, sample_shape, say_unused
from streamgmm.cli.stacks import draw_images, samples_picture

MOST_DRAWN = 1024
STANDARD_OUTPUT = Path("-")


def sample(
    context: typer.Context,
    model: ModelPath,
    out: Annotated[
        Path,
        typer.Option(
            help="A picture (.png), or numbers (.csv, .ndjson, .npz); '-' prints CSV. [default: standard output]",
            show_default=False,
        ),
    ] = STANDARD_OUTPUT,
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="Number of samples.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    shape: Shape = None,
) -> None:
    """Draw samples from a model. Numbers are in the units of the source; pictures show what the model learned.

    Examples:

      streamgmm sample run -n 64 --out samples.png

      streamgmm sample run -n 1000 --out samples.csv
    """
    from streamgmm.storage.run_folder import model_path
    from streamgmm.storage.stack_file import holds_stack

    path, pictured = model_path(model), out.suffix == ".png"
    if pictured and number > MOST_DRAWN:
        raise CommandError(f"a picture has room for {MOST_DRAWN} samples; write {number:,} of them to a .npz file.")
    if not pictured and str(out) != "-" and out.suffix not in (".csv", ".ndjson", ".npz"):
        raise CommandError(f"{out} has an unsupported extension; expected .png, .csv, .ndjson, .npz or '-'.")
    stacked = holds_stack(path)
    unused = "on stacks, which have their own shape" if stacked else None
    say_unused(context, shape=unused if pictured else "on numbers")
    if stacked:
        _sample_stack(path, out, number, seed)
    else:
        _sample_mixture(path, out, number, seed, shape)
    if str(out) != "-":
        console.say(f"{console.count(number, 'sample')} in {out}.")


def _sample_mixture(path: Path, out: Path, number: int, seed: int, shape: str | None) -> None:
    from streamgmm.storage import load_model

    saved = load_model(path)
    mixture = saved.trainer.mixture
    if out.suffix == ".png":
        from streamgmm import plots

        sides = sample_shape(shape, mixture.n_features)
        is_table = sides is None and plots.image_shape(mixture.n_features, saved.feature_names) is None
        names = saved.feature_names if is_table else None
        plots.samples(mixture, number, seed, sides, names).savefig(out, dpi=100)
        return
    rows, components = mixture.sample(number, seed)
    if saved.scaling is not None:
        rows = saved.scaling.invert(rows)
    _write(out, rows, components, saved.feature_names)


def _sample_stack(path: Path, out: Path, number: int, seed: int) -> None:
    from streamgmm.layers import DeepStreamingMixture

    model = DeepStreamingMixture.load(path)
    rows, components = draw_images(model, number, seed)
    if out.suffix == ".png":
        samples_picture(model, rows).savefig(out, dpi=100)
    else:
        _write(out, rows, components.reshape(number, -1)[:, 0], None)


def _write(out: Path, rows: Any, components: Any, known: list[str] | None) -> None:
    """Write samples as numbers, with the components that they come from."""
    import numpy as np

    from streamgmm.sinks import open_sink

    if out.suffix == ".npz":
        np.savez(out, x=rows, components=components)
        return
    names = known or [f"x{i}" for i in range(rows.shape[1])]
    label = "component"
    while label in names:  # a feature may be called so
        label = f"_{label}"
    with open_sink(None if str(out) == "-" else out, sys.stdout) as write:
        write({**dict(zip(names, rows.T, strict=True)), label: components})
