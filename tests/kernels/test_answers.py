"""[E28] The kernel computes the model that answers; a rule that leaves it to NumPy gives the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from streamgmm import Natural
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Serial


@dataclass(frozen=True)
class PlainNatural(Natural):
    """The natural rule, whose answers come from NumPy."""

    def answer(self, *arguments: Any) -> bool:
        return False


def trained(rule: Natural, features: int, components: int, dtype: type, samples: int) -> Trainer:
    rng = np.random.default_rng(features)
    x = rng.normal(rng.normal(size=(4, features))[rng.integers(4, size=samples)], 0.3) * 10.0 ** rng.integers(-3, 4)
    x[:, features // 2] = 7.0  # never varies
    trainer = Trainer(Settings(components, rule=rule), features, dtype, engine=Serial(), seed=0)
    trainer.feed(x)
    return trainer


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("features", "components"), [(1, 1), (3, 5), (17, 16), (70, 9)])
@pytest.mark.parametrize("samples", [230, 3000])
def test_answers_are_those_of_numpy(dtype: type, features: int, components: int, samples: int) -> None:
    native, plain = (trained(r, features, components, dtype, samples) for r in (Natural(), PlainNatural()))
    rtol = 2e-6 if dtype is np.float32 else 1e-13
    for of in ("means", "precisions", "weights"):
        answers, expected = getattr(native.mixture, of), getattr(plain.mixture, of)
        atol = rtol * np.abs(expected).max()  # a mean near zero is a difference of rounded numbers
        np.testing.assert_allclose(answers, expected, rtol=rtol, atol=atol if of == "means" else 0, err_msg=of)
    np.testing.assert_array_equal(native.mixture.constants, plain.mixture.constants)


def test_answers_leave_the_training_as_it_is() -> None:
    trainer = trained(Natural(), 6, 4, np.float64, 900)
    before = {name: value.copy() for name, value in trainer.tensors().items()}
    trainer.mixture.log_prob(np.zeros((1, 6)))
    for name, value in trainer.tensors().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
