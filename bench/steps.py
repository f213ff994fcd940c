"""One step: against the machine's limit, against NumPy, with and without early abandoning, over sizes."""

from __future__ import annotations

import numpy as np

from bench import peers, work
from bench.measure import aligned, rates, ratio, reading, rewriting
from bench.report import Table
from streamgmm import StreamingGaussianMixture
from streamgmm.grid import torus

SIZES = [(k, d) for k in (16, 64, 256, 1024) for d in (64, 784, 3072, 30_000) if k * d <= 8_000_000]
QUICK = [(64, 784), (64, 3072), (64, 30_000), (256, 784)]


def limits(quick: bool) -> list[Table]:
    """Share of the memory limit at batch 1, and the NumPy version of the same step."""
    table = Table(
        "Batch 1 against the memory limit",
        "SGD, one thread, float32, every component scanned in full. The limit reads (σ narrow) or reads and "
        "writes (σ wide) "
        "an array as large as the parameters, in the same run; a narrow step reads all parameters once, a "
        "wide one reads "
        "them twice and writes them once. NumPy: the same step with arrays.",
        [
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
        "log-log slope of the time per sample, from the table above (narrow, full scan), and of the time in "
        "units of the "
        "read limit of the case: where the second is 1 and the first is more, memory got slower, not the loop.",
        ["between", "slope of time", "slope of time ÷ limit"],
    )
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for components, features in QUICK if quick else SIZES:
        x = np.random.default_rng(0).random(
            (max(16, 2_000_000 // (components * features) * 16), features), dtype=np.float32
        )
        x = x[:2000]
        cells = []
        for sigma, limit, passes in ((0.01, reading, 1), (2.0, rewriting, 3)):
            p = work.random_mixture(components, features)
            few = x[: max(4, len(x) // 5)]
            numpy_peer = peers.NumpySgd(p.means.copy(), p.scales.copy(), torus(components), sigma, work.RATE)
            got = rates(
                {
                    "native": work.sgd(p, x if passes == 1 else few, sigma, scan_all=True),
                    "limit": limit(aligned(2 * p.means_buffer.size)),
                    "numpy": work.each(numpy_peer.step, few[:10]),
                },
                seconds=0.15 if quick else 0.25,
            )
            touched = passes * 2 * p.means_buffer.nbytes
            share = ratio([r * touched for r in got["native"]], got["limit"])
            cells.append((share, ratio(got["native"], got["numpy"])))
            if passes == 1:
                seconds = 1 / float(np.median(got["native"]))
                found[components, features] = (seconds, components * features / share[0])
        table.add(components, features, cells[0][0], cells[1][0], cells[0][1], cells[1][1])
    for a, b in (
        ((64, 784), (64, 30_000)),
        ((64, 784), (1024, 784)),
        ((256, 784), (1024, 784)),
        ((64, 3072), (256, 3072)),
    ):
        if a in found and b in found:
            size = (b[0] * b[1]) / (a[0] * a[1])
            slopes = [float(np.log(found[b][i] / found[a][i]) / np.log(size)) for i in (0, 1)]
            costs.add(f"K={a[0]}, D={a[1]} and K={b[0]}, D={b[1]}", *slopes)
    return [table, costs]


def abandoning(quick: bool) -> list[Table]:
    """Speed-up by early abandoning on real images, after training."""
    table = Table(
        "Early abandoning",
        "SGD steps after training (σ at its minimum), samples of the data: rate with abandoning ÷ rate of "
        "the full scan; "
        "winners and losses are the same bit for bit.",
        ["data", "K", "÷ full scan"],
    )
    for name in ("mnist", "fashionmnist", "svhn"):
        for components in (64, 256) if quick else (64, 256, 1024):
            found, x = work.images(name)
            model = StreamingGaussianMixture(components, rule="sgd", random_state=0).partial_fit(x)
            p = model._training.parameters
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
    """Larger batches, and each rule."""
    _, x = work.images()
    x = x[:2048]
    table = Table(
        "Batches and rules",
        "Whole training (control included), K=64, D=784, samples per second relative to SGD with batch 1 at "
        "the same σ.",
        ["rule", "batch", "σ 2", "σ 0.5", "σ 0.01"],
    )
    sizes = (1, 16) if quick else (1, 16, 256)
    cells: dict[tuple[str, int], list[object]] = {}
    for sigma in (2.0, 0.5, 0.01):
        cases = {
            f"{rule} {size}": work.trained(rule, 64, x, sigma, batch_size=size)
            for rule in ("sgd", "natural", "sem")
            for size in sizes
        }
        got = rates(cases, seconds=0.15)
        for rule in ("sgd", "natural", "sem"):
            for size in sizes:
                cells.setdefault((rule, size), []).append(ratio(got[f"{rule} {size}"], got["sgd 1"]))
    for (rule, size), row in cells.items():
        table.add(rule, size, *row)
    return [table]
