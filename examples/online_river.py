"""
With river, one dictionary at a time
====================================

:class:`~streamgmm.OnlineMixture` is a river clusterer, and :class:`~streamgmm.OnlineAnomalyDetector` a river anomaly
detector. Features may appear and disappear.
"""

# %%
# A stream of dictionaries. One in a hundred is odd, and the humidity is often missing.

import random

rng = random.Random(0)


def reading(odd):
    warm = rng.random() < 0.5
    found = {"temperature": rng.gauss(24 if warm else 4, 2), "pressure": rng.gauss(1013, 5)}
    if rng.random() < 0.7:
        found["humidity"] = rng.gauss(40 if warm else 80, 5)
    if odd:
        found["pressure"] += 60
    return found


# %%
# Judge each reading before learning it. Higher scores are stranger.

from river import metrics

from streamgmm import OnlineAnomalyDetector, OnlineMixture

detector, clusters = OnlineAnomalyDetector(n_components=4, seed=0), OnlineMixture(n_components=4, seed=0)
quality = metrics.RollingROCAUC(window_size=2000)
scores = []
for i in range(4000):
    odd = i % 100 == 99
    x = reading(odd)
    scores.append(detector.score_one(x))
    quality.update(odd, scores[-1])
    detector.learn_one(x)
    clusters.learn_one(x)
print(f"area under the ROC curve of the last 2000 readings: {quality.get():.3f}")

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(range(2000, 4000), scores[2000:], ".", color="grey", markersize=2, label="usual")
axes.plot(range(2099, 4000, 100), scores[2099::100], "o", color="tab:red", label="odd")
axes.set(xlabel="readings", ylabel="score")
axes.legend()

# %%
# A warm reading and a cold one belong to different components, even without the humidity.

warm = clusters.predict_one({"temperature": 24.0, "pressure": 1013.0, "humidity": 40.0})
cold = clusters.predict_one({"temperature": 4.0, "pressure": 1013.0})
print("different components:", warm != cold)
