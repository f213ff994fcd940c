"""Rows that nobody would choose to learn from, but that machines send: by number, so that each can be made again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Rows = np.ndarray
Maker = Callable[[np.random.Generator, int, int, float], Rows]
MOST = {np.dtype(np.float32): 37.0, np.dtype(np.float64): 149.0}  # powers of ten that can be learned
ALL = {np.dtype(np.float32): 38.0, np.dtype(np.float64): 300.0}  # and those that a number may have


def usual(rng: np.random.Generator, rows: int, features: int, _: float) -> Rows:
    """Rows from a few clusters."""
    centres = rng.normal(0, 3, (3, features))
    return centres[rng.integers(3, size=rows)] + rng.normal(0, 1, (rows, features))


def constant_columns(rng: np.random.Generator, rows: int, features: int, most: float) -> Rows:
    x = usual(rng, rows, features, most)
    some = rng.random(features) < 0.6
    x[:, some] = rng.choice([0.0, 1.0, -1.0, 0.1, 1e6], features)[some]
    return x


def repeated_columns(rng: np.random.Generator, rows: int, features: int, most: float) -> Rows:
    return usual(rng, rows, features, most)[:, rng.integers(max(1, features // 2), size=features)]


def dependent_columns(rng: np.random.Generator, rows: int, features: int, _: float) -> Rows:
    few = max(1, features // 3)
    return rng.normal(0, 1, (rows, few)) @ rng.normal(0, 1, (few, features))


def one_row(rng: np.random.Generator, rows: int, features: int, _: float) -> Rows:
    return np.tile(rng.normal(0, 1, features), (rows, 1))


def two_rows_in_turn(rng: np.random.Generator, rows: int, features: int, _: float) -> Rows:
    return rng.normal(0, 1, (2, features))[np.arange(rows) % 2]


def zeros(_: np.random.Generator, rows: int, features: int, __: float) -> Rows:
    return np.zeros((rows, features))


def some_rows_of_zeros(rng: np.random.Generator, rows: int, features: int, most: float) -> Rows:
    return usual(rng, rows, features, most) * (rng.random((rows, 1)) < 0.5)


def any_magnitudes(rng: np.random.Generator, rows: int, features: int, most: float) -> Rows:
    """Columns that differ by hundreds of powers of ten."""
    return np.clip(usual(rng, rows, features, most), -9, 9) * 10 ** rng.uniform(-2 * most, most - 1, features)


def any_numbers(rng: np.random.Generator, rows: int, features: int, most: float) -> Rows:
    """Numbers that differ by hundreds of powers of ten within a column."""
    return rng.choice([-1, 1], (rows, features)) * 10 ** rng.uniform(-most, most, (rows, features))


def bursts(rng: np.random.Generator, rows: int, features: int, most: float) -> Rows:
    x = usual(rng, rows, features, most)
    for _ in range(rng.integers(1, 4)):
        start = rng.integers(rows)
        where = slice(start, start + int(rng.integers(1, 60)))
        x[where, rng.random(features) < rng.choice([0.2, 1.0])] = rng.choice([-1, 1]) * 10 ** rng.uniform(2, most)
    return x


def integers(rng: np.random.Generator, rows: int, features: int, _: float) -> Rows:
    kind = rng.choice([np.int8, np.uint8, np.int32, np.int64])
    return rng.integers(0, rng.integers(1, 100), (rows, features)).astype(kind)


def booleans(rng: np.random.Generator, rows: int, features: int, _: float) -> Rows:
    return rng.random((rows, features)) < rng.choice([0.01, 0.3, 0.99])


def another_unit(rng: np.random.Generator, rows: int, features: int, most: float) -> Rows:
    """Columns whose unit or level changes in mid-stream."""
    x = usual(rng, rows, features, most)
    x[rng.integers(rows) :, rng.random(features) < 0.5] *= 10 ** rng.uniform(-min(most, 20), min(most, 20))
    x[rng.integers(rows) :] += rng.choice([0.0, 1e3, 1e9])
    return x


def subnormal(rng: np.random.Generator, rows: int, features: int, most: float) -> Rows:
    least = 1e-310 if most > 100 else 1e-40
    return usual(rng, rows, features, most) * least


def far_from_zero(rng: np.random.Generator, rows: int, features: int, most: float) -> Rows:
    """Columns that vary in their last digits."""
    return usual(rng, rows, features, most) + 10 ** rng.uniform(2, min(18, most - 1), features)


def nearly_dependent(rng: np.random.Generator, rows: int, features: int, most: float) -> Rows:
    x = dependent_columns(rng, rows, features, most)
    return x + 10 ** rng.uniform(-17, -3) * rng.normal(0, 1, x.shape)


def beyond_all_limits(rng: np.random.Generator, rows: int, features: int, most: float) -> Rows:
    return usual(rng, rows, features, most) * 10 ** rng.uniform(most - 2, 2 * most, features)


MAKERS: tuple[Maker, ...] = (
    usual,
    constant_columns,
    repeated_columns,
    dependent_columns,
    one_row,
    two_rows_in_turn,
    zeros,
    some_rows_of_zeros,
    any_magnitudes,
    any_numbers,
    bursts,
    integers,
    booleans,
    another_unit,
    subnormal,
    far_from_zero,
    nearly_dependent,
    beyond_all_limits,
)


def odd_rows(rng: np.random.Generator, size: tuple[int, int], dtype: np.dtype, gaps: bool) -> tuple[str, Rows]:
    """Make rows of one kind, or with columns of two, and tell of which."""
    rows, features = size
    most = MOST[dtype]
    first, second = rng.choice(len(MAKERS), 2)
    with np.errstate(all="ignore"):
        x = MAKERS[first](rng, rows, features, most)
        name = MAKERS[first].__name__
        if rng.random() < 0.3:
            other = MAKERS[second](rng, rows, features, most)
            x = np.where(rng.random(features) < 0.5, x, other)
            name += " and " + MAKERS[second].__name__
        if x.dtype.kind == "f":
            x = np.clip(x, -(10 ** ALL[dtype]), 10 ** ALL[dtype]).astype(dtype)
        elif dtype == np.float32 or gaps:
            x = x.astype(dtype)
    if gaps:
        x[rng.random(x.shape) < rng.choice([0.0, 0.1, 0.5, 0.95])] = np.nan
        x[:, rng.random(features) < rng.choice([0.0, 0.0, 0.2])] = np.nan
    return name, x
