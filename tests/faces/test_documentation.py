"""Documentation that scikit-learn shows beside an estimator."""

from __future__ import annotations

import html
import inspect
import re

import pytest
import sklearn

from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture

ESTIMATORS = [StreamingGaussianMixture, StreamingAnomalyDetector]
VERSION = tuple(int(part) for part in re.findall(r"\d+", sklearn.__version__)[:2])


@pytest.mark.skipif(VERSION < (1, 8), reason="this scikit-learn shows no descriptions of parameters")
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_parameter_is_described(estimator: type) -> None:
    shown = html.unescape(estimator()._repr_html_())
    described = dict(re.findall(r'param-doc-description"[^>]*>\s*(\w+): (.*?)</span>', shown, re.DOTALL))
    names = [name for name in inspect.signature(estimator).parameters if name != "self"]
    assert list(described) == names
    for name, text in described.items():
        kind, _, description = text.partition("<br><br>")
        assert kind, name
        assert len(description.split()) > 2, name


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_documentation_is_linked(estimator: type) -> None:
    assert f"https://streamgmm.readthedocs.io/en/stable/api/{estimator.__name__}.html" in estimator()._repr_html_()
