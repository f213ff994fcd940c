"""`python -m bench`: the native step against NumPy and against the machine's limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from bench.measure import aligned, rates, ratio, reading, rewriting
from bench.peers import NumpySgd
from streamgmm import StreamingGaussianMixture, kernels, training
from streamgmm.grid import filters, torus
from streamgmm.kernels import Parameters
from streamgmm.streams.glyphs import Glyphs

COMPONENTS, RATE = 64, 0.001


def native(p: Parameters, x: np.ndarray, sigma: float) -> Callable[[], float]:
    def work() -> float:
        kernels.sgd_steps(p, x, filters(torus(COMPONENTS), sigma), rate=RATE, scale_bounds=(1e-3, 20**0.5))
        return float(len(x))

    return work


def by_hand(peer: NumpySgd, x: np.ndarray) -> Callable[[], float]:
    def work() -> float:
        for row in x:
            peer.step(row)
        return float(len(x))

    return work


def trained(rule: str, x: np.ndarray, sigma: float) -> Callable[[], float]:
    """Whole training, control and all, of a rule whose annealing stands at ``sigma``."""
    settings = {"period": 1000, "sigma_init": sigma, "sigma_min": min(sigma, 0.01), "random_state": 0}
    model = StreamingGaussianMixture(COMPONENTS, rule=rule, **settings).partial_fit(x[: 3 * COMPONENTS])
    state = model._training
    frozen = state.annealing

    def work() -> float:
        state.annealing = replace(state.annealing, sigma=frozen.sigma)  # it must not narrow while we measure
        if rule == "natural":
            state.rule_state["hold"] = np.array(sigma > 0.6)
        training.feed(state, x)
        return float(len(x))

    return work


def compare_rules() -> None:
    """Each rule against SGD, on images, with annealing wide (natural: scales held), half-way and narrow."""
    x, _ = Glyphs(seed=0).take(0, 1000)
    print("\n| rule ÷ sgd, time per sample | " + " | ".join(f"σ {s}" for s in (2.0, 0.5, 0.01)) + " |")
    print("|---|---|---|---|")
    found = {}
    for sigma in (2.0, 0.5, 0.01):
        with threadpool_limits(1):
            found[sigma] = rates({rule: trained(rule, x, sigma) for rule in ("sgd", "natural", "sem")})
    for rule in ("natural", "sem"):
        cells = (ratio(found[s]["sgd"], found[s][rule]) for s in found)
        print(f"| {rule} | " + " | ".join(f"{m:.2f} ({a:.2f}-{b:.2f})" for m, a, b in cells) + " |")


def main() -> None:
    compare_steps()
    compare_rules()


def compare_steps() -> None:
    rng = np.random.default_rng(0)
    print(f"one thread, K={COMPONENTS}, float32, batch 1, vector width {kernels.width()}; medians of 5 rounds\n")
    print("| D | σ | native ÷ NumPy | native, share of the memory limit | samples/s |")
    print("|---|---|---|---|---|")
    for features, count in ((784, 500), (3072, 100), (30_000, 20)):
        for name, sigma in (("narrow", 0.01), ("wide", 2.0)):
            means = rng.random((COMPONENTS, features), dtype=np.float32)
            scales = np.full(means.shape, 20**0.5, np.float32)
            x = rng.random((count, features), dtype=np.float32)
            p = Parameters(means, scales, np.zeros(COMPONENTS))
            touched = 2 * means.nbytes  # a narrow step reads all parameters; a wide one reads and writes them as well
            limit = reading if name == "narrow" else rewriting
            cases = {
                "native": native(p, x, sigma),
                "numpy": by_hand(NumpySgd(means, scales, torus(COMPONENTS), sigma, RATE), x[: max(10, count // 10)]),
                "limit": limit(aligned(2 * means.size)),
            }
            with threadpool_limits(1):
                found = rates(cases)
            faster = ratio(found["native"], found["numpy"])
            bytes_per_sample = touched if name == "narrow" else 3 * touched
            share = ratio([r * bytes_per_sample for r in found["native"]], found["limit"])
            speed = sorted(found["native"])[2]
            print(
                f"| {features} | {name} | {faster[0]:.1f} ({faster[1]:.1f}-{faster[2]:.1f}) "
                f"| {share[0]:.2f} ({share[1]:.2f}-{share[2]:.2f}) | {speed:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
