"""
A sensor log: from a CSV file to explained anomalies
====================================================

Learn what is usual from yesterday's log, then find out which rows of today are strange, and why.
"""

# %%
# A machine has two states, and three sensors in different units. Some fields of the log are empty.

import csv
import tempfile
from pathlib import Path

import numpy as np

rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())


def write_log(name, count, wrong=0):
    state = rng.integers(2, size=(count, 1))
    x = np.array([300.0, 1e5, 2.0]) + np.array([40.0, 2e4, 0.5]) * (state + rng.normal(0, 0.15, (count, 3)))
    x[:wrong, 0] += 200.0
    with open(folder / name, "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["time", "temperature", "pressure", "flow"])
        for i, row in enumerate(x):
            values = [f"{value:.5g}" if rng.random() > 0.02 else "" for value in row]
            lines.writerow([f"{i // 60:02}:{i % 60:02}", *values])


write_log("yesterday.csv", 4000)
write_log("today.csv", 1000, wrong=5)

# %%
# Read the log in chunks, and learn it with its gaps. The detector keeps a threshold that 1 % of
# typical rows fall below.

from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.sources import open_source

mixture = StreamingGaussianMixture(16, allow_nan=True, random_state=0)
detector = StreamingAnomalyDetector(mixture, contamination=0.01)
for chunk in open_source(str(folder / "yesterday.csv"), id_column="time", missing=True).chunks():
    detector.partial_fit(chunk.rows)

# %%
# Judge today's rows. The five wrong ones come first.

source = open_source(str(folder / "today.csv"), id_column="time", missing=True)
today = next(source.chunks())
flagged = np.flatnonzero(detector.predict(today.rows) == -1)
print(f"{len(flagged)} of {len(today.rows)} rows are flagged, the first at", [today.ids[i] for i in flagged[:5]])

# %%
# Which sensor is to blame? The bars show each feature's share of the strangeness, with its value and its usual range.

from streamgmm import plots

names = source.feature_names
strangest = np.argsort(detector.score_samples(today.rows))[:3]
reasons = detector.explain(today.rows[strangest])
figure = plots.explanations(
    {
        f"row at {today.ids[i]}": [reason._replace(feature=names[reason.feature]) for reason in row]
        for i, row in zip(strangest, reasons, strict=True)
    }
)
