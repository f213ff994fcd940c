"""A plant with twelve sensors: a log in their own units, in the order of time, with gaps and known faults."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# name, level in each of three states of the plant, daily swing, noise
SENSORS = (
    ("inlet_temperature_C", (18.0, 21.0, 24.0), 4.0, 0.4),
    ("outlet_temperature_C", (22.0, 48.0, 71.0), 3.0, 0.9),
    ("pressure_hPa", (1013.0, 1480.0, 2110.0), 2.0, 9.0),
    ("flow_l_min", (0.4, 35.0, 82.0), 0.2, 0.7),
    ("vibration_m_s2", (0.0008, 0.0121, 0.0304), 0.0, 0.0006),
    ("current_A", (0.9, 14.0, 31.0), 0.1, 0.35),
    ("voltage_V", (231.0, 229.5, 227.0), 1.5, 0.5),
    ("speed_rpm", (0.0, 1480.0, 2950.0), 0.0, 6.0),
    ("humidity_pct", (41.0, 44.0, 46.0), 9.0, 1.1),
    ("oil_level_mm", (118.0, 112.0, 105.0), 0.0, 0.8),
    ("power_W", (210.0, 3210.0, 7040.0), 15.0, 60.0),
    ("light_lx", (300.0, 320.0, 310.0), 280.0, 12.0),
)
NAMES = tuple(name for name, *_ in SENSORS)
MINUTES = 10  # between two rows
KINDS = ("offset", "noise", "stuck")


class SensorLog(NamedTuple):
    """A log: minutes since its start (N,), values (N, 12), and the sensor at fault in each row (N,), -1 for none."""

    minutes: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    faulty: npt.NDArray[np.int64]


def sensor_log(rows: int = 8640, seed: int = 0, *, faults: float = 0.009, gaps: float = 0.01) -> SensorLog:
    """Return a log of two months, by default.

    The plant stands still, runs, or runs at full load, for hours at a time. Faults come in bursts of 3 to 15 rows: one
    sensor is offset by at least eight of its deviations, ten times as noisy, or stuck at an impossible value.

    Parameters
    ----------
    rows : int, default=8640
        Number of rows, ten minutes apart.
    seed : int, default=0
        Randomness.
    faults : float, default=0.009
        Share of rows with a fault, about.
    gaps : float, default=0.01
        Share of values that are missing.

    Examples
    --------
    >>> log = sensor_log(1000, seed=1)
    >>> log.values.shape, len(NAMES), bool((log.faulty >= 0).any())
    ((1000, 12), 12, True)
    """
    rng = np.random.default_rng(seed)
    minutes = MINUTES * np.arange(rows)
    states = _states(rows, rng)
    levels, swing, noise = (np.array([sensor[i] for sensor in SENSORS]) for i in (1, 2, 3))
    usual = np.sqrt(noise**2 + swing**2 / 2)
    day = np.sin(2 * np.pi * (minutes / 1440 - 0.3))[:, None]
    clean = levels.T[states] + swing * day
    values = clean + noise * rng.standard_normal((rows, len(SENSORS)))
    faulty = np.full(rows, -1)
    for start, length in _bursts(rows, faults, rng):
        sensor, burst = int(rng.integers(len(SENSORS))), slice(start, start + length)
        values[burst, sensor] = _fault(clean[burst, sensor], levels[sensor], usual[sensor], rng)
        faulty[burst] = sensor
    values[rng.random(values.shape) < gaps] = np.nan
    return SensorLog(minutes, values, faulty)


def _states(rows: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw states that last between one and twelve hours."""
    lengths = rng.integers(6, 73, size=rows // 6 + 1)
    return np.repeat(rng.integers(0, 3, size=len(lengths)), lengths)[:rows]


def _bursts(rows: int, share: float, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Draw where bursts begin and how long they are, until so large a share of rows is covered."""
    found, left = list[tuple[int, int]](), round(share * rows)
    while left > 0:
        length = min(left, int(rng.integers(3, 16)))
        start = int(rng.integers(0, rows - length + 1))
        if all(start + length <= other or other + size <= start for other, size in found):
            found.append((start, length))
            left -= length
    return found


def _fault(
    clean: npt.NDArray[np.float64], levels: npt.NDArray[np.float64], usual: float, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Return what a sensor at fault reports instead of ``clean`` (n,); ``usual`` is its deviation in one state."""
    kind, sign = KINDS[int(rng.integers(len(KINDS)))], float(rng.choice([-1.0, 1.0]))
    spread = usual * rng.standard_normal(len(clean))
    if kind == "offset":
        return clean + spread + sign * float(rng.uniform(8, 30)) * usual
    if kind == "noise":  # ten times as noisy, and never as if nothing had happened
        return clean + 10 * (spread + np.copysign(0.6 * usual, spread))
    far = max(levels, key=lambda level: abs(level - clean.mean()))
    value = far + 8 * sign * usual
    if np.median(np.abs(clean - value)) < 3 * usual:  # as if nothing had happened
        value = far - 8 * sign * usual
    return np.full(len(clean), value)
