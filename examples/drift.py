"""
A stream that changes
=====================

The clusters of a stream suddenly move. A model with a half-life follows them; one that forgets nothing keeps both old
and new clusters.
"""

# %%
# Two mixtures of three clusters each: the stream changes from one to the other after 6000 rows.

import numpy as np

rng = np.random.default_rng(0)


def clusters(centres, count):
    return np.asarray(centres)[rng.integers(len(centres), size=count)] + rng.normal(0, 0.5, (count, 2))


before = clusters([[0, 0], [4, 0], [0, 4]], 6000)
after = clusters([[4, 4], [8, 4], [4, 8]], 6000)
stream = np.split(np.concatenate([before, after]), 60)

# %%
# Score each chunk before learning it: the prequential log-likelihood.

from streamgmm import StreamingGaussianMixture

models = {
    "forgets nothing": StreamingGaussianMixture(9, random_state=0),
    "half-life of 1000 samples": StreamingGaussianMixture(9, half_life=1000, random_state=0),
    "half-life, and reheats on drift": StreamingGaussianMixture(9, half_life=1000, reheat=True, random_state=0),
}
curves = {name: [] for name in models}
for number, chunk in enumerate(stream):
    for name, model in models.items():
        if number:
            curves[name].append(model.score(chunk))
        model.partial_fit(chunk)

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
rows = 200 * np.arange(1, len(stream))
for name, curve in curves.items():
    axes.plot(rows, curve, label=name)
axes.axvline(6000, color="grey", linestyle=":")
axes.set(ylim=(-8, -2), xlabel="rows", ylabel="log-likelihood of the next chunk (nats)")
axes.legend()

# %%
# How well each model still describes the stream before the change:

for name, model in models.items():
    print(f"{name}: {model.score(before):.1f} nats before, {model.score(after):.1f} after")
