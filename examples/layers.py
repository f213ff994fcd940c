"""
A linear classifier on top of layers
====================================

The stack has seen no label: it learns letters from the stream. A linear classifier then learns from its
responsibilities. Neither ever sees a letter twice.
"""

# %%
# First the stack, chunk by chunk and without labels.

from sklearn.linear_model import SGDClassifier

from streamgmm import DeepStreamingMixture, plots
from streamgmm.sources.synthetic.glyphs import Glyphs

letters = Glyphs(seed=0)
stack = DeepStreamingMixture.from_shape((28, 28), n_components=25, random_state=0)
for start in range(0, 4000, 500):
    images, _ = letters.take(start, 500)
    stack.partial_fit(images)
figure = plots.prototypes(stack, 0)

# %%
# Then the classifier, from the next part of the stream.

classifier, pixels = SGDClassifier(random_state=0), SGDClassifier(random_state=0)
for start in range(4000, 8000, 500):
    images, labels = letters.take(start, 500)
    classifier.partial_fit(stack.transform(images, layer=0), labels, classes=range(10))
    pixels.partial_fit(images, labels, classes=range(10))

# %%
# Test on new letters, and compare with a classifier that sees the pixels.

images, labels = letters.take(8000, 1000)
accuracy = classifier.score(stack.transform(images, layer=0), labels)
print(f"{100 * accuracy:.1f} % recognised by layers, {100 * pixels.score(images, labels):.1f} % by pixels")
