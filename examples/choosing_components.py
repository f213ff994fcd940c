"""
How many components? BIC and prequential curves
===============================================

Two ways to choose the number of components: an information criterion for a table, and scores of the next chunk for a
stream.
"""

# %%
# Five clusters in three dimensions.

import numpy as np

from streamgmm import StreamingGaussianMixture

rng = np.random.default_rng(3)
centres = rng.uniform(0, 10, (5, 3))
x = centres[rng.integers(5, size=6000)] + rng.normal(0, 0.7, (6000, 3))

# %%
# For a table, the Bayesian information criterion weighs fit against the number of parameters. The smallest value wins.

counts = [1, 2, 3, 4, 5, 6, 8, 12]
criterion = [StreamingGaussianMixture(k, random_state=0).fit(x).bic(x) for k in counts]
best = counts[int(np.argmin(criterion))]
print(f"BIC chooses {best} components")

# %%
# For a stream, score each chunk before learning it. Models with more components need more rows before they pay off.

chunks = np.split(x, 30)
curves = {}
for k in (1, 5, 25):
    model = StreamingGaussianMixture(k, random_state=0)
    curves[k] = []
    for chunk in chunks:
        if curves[k] or model.__sklearn_is_fitted__():
            curves[k].append(model.score(chunk))
        model.partial_fit(chunk)

# %%
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
left.plot(counts, criterion, "o-")
left.set(xlabel="components", ylabel="BIC")
for k, curve in curves.items():
    right.plot(200 * np.arange(1, 1 + len(curve)), curve, label=f"{k} components")
right.set(xlabel="rows", ylabel="log-likelihood of the next chunk (nats)")
right.legend()
