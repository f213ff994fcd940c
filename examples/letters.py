"""
Images: letters from an endless stream
======================================

Learn pictures of letters one at a time, from a random start, and look at the model.
"""

# %%
# :class:`~streamgmm.sources.synthetic.glyphs.Glyphs` draws letters in random shapes and places, without end. Each is
# seen once.

from streamgmm import StreamingGaussianMixture, plots
from streamgmm.sources.synthetic.glyphs import Glyphs

model = StreamingGaussianMixture(n_components=36, random_state=0)
stream = Glyphs(seed=0).chunks(1000)
for _ in range(20):
    model.partial_fit(next(stream))
print(f"{model.n_samples_seen_} letters learned; width of the annealing: {model.sigma_:.2f}")

# %%
# The means on their grid. Annealing makes neighbours similar.

figure = plots.centroids(model)

# %%
# New letters, drawn from the model. Pixels of a component are independent, so they are noisy; see the example of layers
# for sharper ones.

figure = plots.samples(model)

# %%
# How often each component wins shows whether all are in use.

import numpy as np

x, _ = Glyphs(seed=1).take(0, 2000)
shares = np.bincount(model.predict(x), minlength=36) / len(x)
print(f"{(shares > 0.1 / 36).sum()} of 36 components are live")
figure = plots.usage(model.weights_, shares)
