"""
Fill in hidden pixels
=====================

A stack of mixtures learns patches, and which patches occur together. Hide half of an image, and it fills in the rest.
"""

# %%
# Learn two layers from the stream of letters.

import numpy as np

from streamgmm import DeepStreamingMixture, plots
from streamgmm.sources.synthetic.glyphs import Glyphs

letters = Glyphs("A-E", seed=0)
stack = DeepStreamingMixture.from_shape((28, 28), n_components=25, random_state=0)
for start in range(0, 6000, 500):
    stack.partial_fit(letters.take(start, 500)[0])

# %%
# NaN marks hidden pixels: here, the right half of ten new letters.

images, _ = letters.take(10_000, 10)
hidden = images.reshape(-1, 28, 28).astype(float)
hidden[:, :, 14:] = np.nan
filled = stack.inpaint(hidden)
figure = plots.images({"visible": hidden.reshape(10, -1), "filled in": filled.reshape(10, -1), "image": images})

# %%
# Compare with an empty half: the mean squared error of the hidden pixels.

error = np.mean((filled.reshape(-1, 28, 28) - images.reshape(-1, 28, 28))[:, :, 14:] ** 2)
empty = np.mean(images.reshape(-1, 28, 28)[:, :, 14:] ** 2.0)
print(f"filled in: {error:.3f}, left empty: {empty:.3f}")
