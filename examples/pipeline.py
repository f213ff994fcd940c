"""
In a scikit-learn pipeline
==========================

:class:`~streamgmm.StreamingGaussianMixture` is an estimator like any other: it works in pipelines, with data
frames and in grid search.
"""

# %%
# Reduce the dimension of handwritten digits, then model their density. Grid search chooses by log-likelihood, which is
# comparable as long as the reduction stays the same.

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from streamgmm import StreamingGaussianMixture

digits = load_digits()
train, test, train_labels, test_labels = train_test_split(digits.data, digits.target, random_state=0)
pipeline = make_pipeline(PCA(16, random_state=0), StreamingGaussianMixture(random_state=0))
search = GridSearchCV(pipeline, {"streaminggaussianmixture__n_components": [4, 16]}, cv=2).fit(train)
print(search.best_params_, f"test log-likelihood {search.score(test):.1f} nats")

# %%
# One mixture per class makes a classifier: the most likely class wins.

import numpy as np

reduce = PCA(16, random_state=0).fit(train)
densities = [
    StreamingGaussianMixture(4, random_state=0).fit(reduce.transform(train[train_labels == digit]))
    for digit in range(10)
]
scores = np.column_stack([density.score_samples(reduce.transform(test)) for density in densities])
accuracy = np.mean(scores.argmax(axis=1) == test_labels)
print(f"{100 * accuracy:.1f} % of test digits are recognised")

# %%
# The mean of each class, back in pixels.

from streamgmm import plots

means = [density.weights_ @ density.means_ for density in densities]
figure = plots.images({"mean": reduce.inverse_transform(means)}, shape=(8, 8))

# %%
# :meth:`~streamgmm.StreamingGaussianMixture.to_sklearn` returns a :class:`sklearn.mixture.GaussianMixture` with
# the same parameters.

plain = densities[0].to_sklearn()
print(type(plain).__name__, np.allclose(plain.score_samples(reduce.transform(test)), scores[:, 0], rtol=1e-3))
