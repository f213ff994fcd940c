"""What the commands show of a stack of layers."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamgmm.cli.console import CommandError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from streamgmm.layers import DeepStreamingMixture
    from streamgmm.native import Floats

SAMPLES = 64
COLUMNS_LEAST = 8


def stack_pictures(path: Path) -> dict[str, Figure]:
    """Return the pictures of a stack by name: the prototypes of each layer that has begun, and samples.

    Parameters
    ----------
    path : Path
        The file of a stack.
    """
    from streamgmm import plots
    from streamgmm.layers import DeepStreamingMixture

    model = DeepStreamingMixture.load(path)
    begun = [number for number, level in enumerate(model.levels_) if level.begun]
    drawn = {f"layer{number}": plots.prototypes(model, number) for number in begun}
    if len(begun) == len(model.levels_):
        drawn["samples"] = samples_picture(model, draw_images(model, SAMPLES, 0)[0])
    return drawn


def draw_images(model: DeepStreamingMixture, number: int, seed: int) -> tuple[Floats, Any]:
    """Draw images from a stack; return them as rows, with the components of the top layer.

    Parameters
    ----------
    model : DeepStreamingMixture
        The stack.
    number : int
        Number of images.
    seed : int
        Seed of the draw.
    """
    from sklearn.exceptions import NotFittedError

    try:
        return model.set_params(random_state=seed).sample(number)
    except NotFittedError as problem:  # the top layer has not begun
        raise CommandError(str(problem)) from problem


def samples_picture(model: DeepStreamingMixture, rows: Floats) -> Figure:
    """Draw images in lines.

    Parameters
    ----------
    model : DeepStreamingMixture
        The stack that they come from.
    rows : array of shape (n, D)
        The images.
    """
    from streamgmm import plots

    shape = model.shape if len(model.shape) == 2 or model.shape[2] != 1 else model.shape[:2]
    columns = max(COLUMNS_LEAST, isqrt(len(rows)))
    starts = range(0, len(rows), columns)
    lines = {f"{start + 1} to {min(start + columns, len(rows))}": rows[start : start + columns] for start in starts}
    return plots.images(lines, shape)


def describe_stack(path: Path) -> dict[str, Any]:
    """Return what is known of a stack as plain data.

    Parameters
    ----------
    path : Path
        The file of a stack.
    """
    from streamgmm.layers import DeepStreamingMixture

    model, written = DeepStreamingMixture.load(path), path.stat()
    return {
        "file": str(path),
        "bytes": written.st_size,
        "written": datetime.fromtimestamp(written.st_mtime, UTC).isoformat(timespec="seconds"),
        "shape": list(model.shape),
        "images": model.n_samples_seen_,
        "layers": [
            {
                "patch": list(level.stage.fold.sides(level.stage.pooled)[0]),
                "positions": list(level.stage.positions),
                "shared": level.stage.fold.shared,
                "components": level.stage.n_components,
                "live_components": level.trainers[0].live,
                "features": level.stage.n_features,
                "samples": sum(trainer.n_samples for trainer in level.trainers),
                "annealed": all(trainer.annealed for trainer in level.trainers),
                "sigma": max(trainer.sigma for trainer in level.trainers),
            }
            for level in model.levels_
        ],
    }


def stack_lines(known: dict[str, Any]) -> list[tuple[str, str]]:
    """Return labels and texts that tell what `describe_stack` found.

    Parameters
    ----------
    known : dict
        What is known of a stack.
    """
    lines = [
        ("stack", f"{known['file']}, {known['bytes']:,} bytes, written {known['written']}"),
        ("images", f"{known['images']:,} of shape {_times(known['shape'])}"),
    ]
    for number, layer in enumerate(known["layers"]):
        state = "annealed" if layer["annealed"] else f"still annealing, σ {layer['sigma']:.3g}"
        apart = "" if layer["shared"] else ", a mixture at each"
        lines.append(
            (
                f"layer {number}",
                f"{layer['components']} components ({layer['live_components']} live), patches of "
                f"{_times(layer['patch'])} at {_times(layer['positions'])} positions{apart}; "
                + (f"{layer['samples']:,} samples, {state}" if layer["samples"] else "has not begun"),
            )
        )
    return lines


def _times(sides: list[int]) -> str:
    return "×".join(map(str, sides))
