"""A linear classifier on top of layers that have seen no label.

``python examples/layers.py`` learns letters from the built-in stream: first the stack, chunk by chunk and without
labels, then a linear classifier on its responsibilities. Both learn from a stream; neither ever sees a letter twice.
"""

from __future__ import annotations

import sys

from sklearn.linear_model import SGDClassifier

from streamgmm import DeepStreamingMixture
from streamgmm.sources.synthetic.glyphs import Glyphs

CHUNK = 500


def main(count: int = 20_000) -> float:
    """Return the share of new letters that are recognised.

    Parameters
    ----------
    count : int, default=20000
        Letters to learn from: half without labels, half with labels.
    """
    letters, half = Glyphs(seed=0), count // 2
    stack = DeepStreamingMixture.from_shape((28, 28), n_components=25, random_state=0)
    for start in range(0, half, CHUNK):
        images, _ = letters.take(start, CHUNK)
        stack.partial_fit(images)

    classifier = SGDClassifier(random_state=0)
    for start in range(half, count, CHUNK):
        images, labels = letters.take(start, CHUNK)
        classifier.partial_fit(stack.transform(images, layer=0), labels, classes=range(10))

    images, labels = letters.take(count, 1000)
    return float(classifier.score(stack.transform(images, layer=0), labels))


if __name__ == "__main__":
    print(f"{100 * main(*map(int, sys.argv[1:])):.1f} % of new letters are recognised.")
