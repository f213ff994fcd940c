"""
Predict one column from another, with an interval
=================================================

A mixture with full covariances learns how features depend on each other. From the known features of a row it predicts
the others: as one number, an interval, or a whole distribution.
"""

# %%
# A curve with noise that grows, learned row by row.

import numpy as np

from streamgmm import StreamingGaussianMixture

rng = np.random.default_rng(0)
t = rng.uniform(0, 6, 8000)
y = np.sin(t) + rng.normal(0, 0.05 + 0.05 * t)
model = StreamingGaussianMixture(16, covariance_type="full", random_state=0)
for chunk in np.array_split(np.column_stack([t, y]), 8):
    model.partial_fit(chunk)

# %%
# NaN marks what is unknown. ``impute`` returns the mean, ``conditional_sample`` draws.

asked = np.column_stack([np.linspace(0.2, 5.8, 60), np.full(60, np.nan)])
expected = model.impute(asked)[:, 1]
drawn = model.conditional_sample(asked, 500)[:, :, 1]
low, high = np.quantile(drawn, [0.05, 0.95], axis=0)

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.scatter(t[:1500], y[:1500], s=3, color="grey", alpha=0.4)
axes.plot(asked[:, 0], expected, label="expected")
axes.fill_between(asked[:, 0], low, high, alpha=0.3, label="90 % of the values")
axes.set(xlabel="t", ylabel="y")
axes.legend()

# %%
# How many of the rows fall into the interval predicted at the nearest point?

nearest = np.abs(t[:, None] - asked[:, 0]).argmin(axis=1)
inside = np.mean((low[nearest] < y) & (y < high[nearest]))
print(f"{100 * inside:.0f} % of the rows are inside")
