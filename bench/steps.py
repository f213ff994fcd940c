"""Single steps: against the memory limit and NumPy, with and without early abandoning, and by batch size."""

from __future__ import annotations

import numpy as np

from bench import peers, work
from bench.measure import aligned, rates, ratio, reading, rewriting
from bench.report import Table
from streamgmm import native
from streamgmm.core.grid import torus
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Serial

SIZES = [(k, d) for k in (16, 64, 256, 1024) for d in (64, 784, 3072, 30_000) if k * d <= 8_000_000]
QUICK = [(64, 784), (64, 3072), (64, 30_000), (256, 784)]
SLOPES = [((64, 784), (64, 30_000)), ((64, 784), (1024, 784)), ((256, 784), (1024, 784)), ((64, 3072), (256, 3072))]
RULES = ("sgd", "natural", "sem")


def limits(quick: bool) -> list[Table]:
    """Compare steps of one sample with the memory limit and with NumPy.

    Parameters
    ----------
    quick : bool
        Whether to measure fewer sizes.
    """
    table = Table(
        "Batch 1 against the memory limit",
        "SGD, one thread, float32, no early abandoning. The limit is the time to read (narrow σ) or to read and "
        "write (wide σ) an array as large as the parameters, in the same run. A narrow step reads all parameters "
        "once; a wide one reads them twice and writes them once. NumPy: the same step with arrays.",
        [
            "vectors",
            "K",
            "D",
            "share of the read limit, narrow",
            "share of the read+write limit, wide",
            "÷ NumPy, narrow",
            "÷ NumPy, wide",
        ],
    )
    costs = Table(
        "Cost per sample over sizes",
        "Log-log slope of the time per sample in the table above (narrow σ, widest vectors), and of that time in units "
        "of the read limit. Where only the first exceeds 1, memory got slower, not the loop.",
        ["between", "slope of time", "slope of time ÷ limit"],
    )
    found: dict[tuple[int, int], tuple[float, float]] = {}
    chosen = native.width()
    for width in native.widths()[-2:]:
        native.use_width(width)
        for components, features in QUICK if quick else SIZES:
            cells = []
            for narrow in (True, False):
                got, touched = _against_limit(components, features, narrow, 0.15 if quick else 0.25)
                share = ratio([r * touched for r in got["native"]], got["limit"])
                cells.append((share, ratio(got["native"], got["numpy"])))
                if narrow:
                    seconds = 1 / float(np.median(got["native"]))
                    found[components, features] = (seconds, components * features / share[0])
            table.add(width, components, features, cells[0][0], cells[1][0], cells[0][1], cells[1][1])
    native.use_width(chosen)
    for a, b in SLOPES:
        if a in found and b in found:
            growth = (b[0] * b[1]) / (a[0] * a[1])
            slopes = [float(np.log(found[b][i] / found[a][i]) / np.log(growth)) for i in (0, 1)]
            costs.add(f"K={a[0]}, D={a[1]} and K={b[0]}, D={b[1]}", *slopes)
    return [table, costs]


def _against_limit(
    components: int, features: int, narrow: bool, seconds: float
) -> tuple[dict[str, list[float]], float]:
    """Return rates of steps, of the memory limit and of NumPy, and the bytes that a step touches."""
    x, p = _rows(components, features), work.random_mixture(components, features)
    sigma, limit, passes = (0.01, reading, 1) if narrow else (2.0, rewriting, 3)
    few = x[: max(4, len(x) // 5)]
    numpy_peer = peers.NumpySgd(p.means.copy(), p["scales"].copy(), torus(components), sigma, work.RATE)
    got = rates(
        {
            "native": work.sgd(p, x if narrow else few, sigma, scan_all=True),
            "limit": limit(aligned(2 * p.buffers["means"].size)),
            "numpy": work.each(numpy_peer.step, few[:10]),
        },
        seconds=seconds,
    )
    return got, passes * 2 * p.buffers["means"].nbytes


def _rows(components: int, features: int) -> np.ndarray:
    """Return random samples, fewer for large mixtures."""
    count = min(2000, max(16, 2_000_000 // (components * features) * 16))
    return np.random.default_rng(0).random((count, features), dtype=np.float32)


def abandoning(quick: bool) -> list[Table]:
    """Measure the speed-up by early abandoning on images, after training.

    Parameters
    ----------
    quick : bool
        Whether to measure fewer sizes.
    """
    table = Table(
        "Early abandoning",
        "SGD steps after training, with σ at its minimum: rate with early abandoning ÷ rate without. Winners and "
        "losses are bit-identical.",
        ["data", "K", "÷ full scan"],
    )
    for name in ("mnist", "fashionmnist", "svhn"):
        for components in (64, 256) if quick else (64, 256, 1024):
            found, x = work.images(name)
            trainer = Trainer(Settings(components, rule="sgd"), x.shape[1], x.dtype, engine=Serial(), seed=0)
            trainer.feed(x)
            p = trainer.parameters
            some = x[: 2000 if components < 1000 else 500]
            got = rates(
                {
                    "abandon": work.sgd(p.copy(), some, 0.01),
                    "full": work.sgd(p.copy(), some, 0.01, scan_all=True),
                },
                seconds=0.2,
            )
            table.add(found, components, ratio(got["abandon"], got["full"]))
            if found == "glyphs":
                return [table]
    return [table]


def batches(quick: bool) -> list[Table]:
    """Compare rules and batch sizes.

    Parameters
    ----------
    quick : bool
        Whether to measure fewer batch sizes.
    """
    _, x = work.images()
    x = x[:3200]
    table = Table(
        "Batches and rules",
        "Training including control, K=64, D=784, for each vector width of this machine: samples per second relative "
        "to batch size 1 of the same rule at the same σ. The smallest σ is reached by annealing.",
        ["vectors", "rule", "batch", "σ 2", "σ 0.5", "σ 0.01"],
    )
    sizes, chosen = (1, 100) if quick else (1, 16, 100, 256), native.width()
    for width in native.widths()[-2:]:
        native.use_width(width)
        cells: dict[tuple[str, int], list[object]] = {}
        for sigma in (2.0, 0.5, 0.01):
            cases = {f"{rule} {size}": work.trained(rule, x, sigma, size) for rule in RULES for size in sizes}
            got = rates(cases, seconds=0.15)
            for rule in RULES:
                for size in sizes[1:]:
                    cells.setdefault((rule, size), []).append(ratio(got[f"{rule} {size}"], got[f"{rule} 1"]))
        for (rule, size), row in cells.items():
            table.add(width, rule, size, *row)
    native.use_width(chosen)
    return [table]


def scales(quick: bool) -> list[Table]:
    """Compare the time per sample of raw data (``scale="auto"``) with that of ``scale="none"``.

    Parameters
    ----------
    quick : bool
        Whether to measure fewer numbers of components.
    """
    table = Table(
        "Raw data",
        'The natural rule, control included: time per sample with `scale="auto"`, the default, ÷ that with '
        '`scale="none"`. The first samples include the first frame and the annealing.',
        ["data", "K", "the first 20 000", "once annealed"],
    )
    for components in (64,) if quick else (16, 64, 256):
        found, x = work.images()
        first = rates({scale: work.begun(x, scale, components) for scale in ("none", "auto")}, seconds=0.0)
        later = rates({scale: work.continued(x, scale, components) for scale in ("none", "auto")}, seconds=0.3)
        table.add(found, components, ratio(first["none"], first["auto"]), ratio(later["none"], later["auto"]))
    return [table]
