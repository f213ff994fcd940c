"""
Comparison with scikit-learn's GaussianMixture
==============================================

How close does one pass over a stream come to batch EM, which sees all rows many times and starts from k-means?
"""

# %%
# Eight overlapping clusters in five dimensions. The true mixture is known, and so is the best possible score.

import numpy as np
from sklearn.mixture import GaussianMixture

from streamgmm import Mixture, StreamingGaussianMixture

rng = np.random.default_rng(0)
truth = Mixture.from_parameters(np.full(8, 1 / 8), rng.normal(0, 1.2, (8, 5)), np.full((8, 5), 1.0))
x, _ = truth.sample(20_000, rng)
test, _ = truth.sample(5000, rng)
best = truth.log_prob(test).mean()

# %%
# Batch EM sees all rows at once, several times.

batch = GaussianMixture(8, covariance_type="diag", random_state=0).fit(x)

# %%
# The stream: five hundred rows at a time, each row once. It never holds more than one chunk.

model = StreamingGaussianMixture(8, random_state=0)
seen, scores = [], []
for chunk in np.split(x, 40):
    model.partial_fit(chunk)
    seen.append(model.n_samples_seen_)
    scores.append(model.score(test))
print(f"nats below the truth: GaussianMixture {best - batch.score(test):.3f}, one pass {best - scores[-1]:.3f}")

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(seen, best - np.array(scores), label="StreamingGaussianMixture, one pass")
axes.axhline(best - batch.score(test), color="tab:orange", linestyle="--", label="GaussianMixture, all rows at once")
axes.set(xlabel="samples learned", ylabel="nats below the truth", yscale="log")
axes.legend()
