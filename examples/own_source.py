"""
A source of your own
====================

A source yields rows in chunks, each with a position from which reading can resume. Subclass
:class:`~streamgmm.sources.Source`, and train from your database, your simulator or your protocol.
"""

# %%
# Here: a table in SQLite. A position is any dictionary that JSON can hold.

import sqlite3

import numpy as np

from streamgmm.sources import Chunk, Source

rng = np.random.default_rng(0)
database = sqlite3.connect(":memory:")
database.execute("create table readings (id integer primary key, temperature real, flow real)")
values = rng.normal([[20.0, 1.0], [60.0, 3.0]], [2.0, 0.2], (2500, 2, 2)).reshape(-1, 2)
database.executemany("insert into readings (temperature, flow) values (?, ?)", values.tolist())


class Readings(Source):
    """Rows of the table ``readings``, in the order of their ids."""

    name = "readings"
    feature_names = ["temperature", "flow"]

    def chunks(self, start=None):
        row = start["row"] if start else 0
        while True:
            query = "select id, temperature, flow from readings where id > ? order by id limit 1000"
            found = database.execute(query, (row,)).fetchall()
            if not found:
                return
            table = np.array(found)
            row = int(table[-1, 0])
            yield Chunk(table[:, 1:], table[:, 0].astype(int), {"row": row})


# %%
# Learn some chunks, and remember the position. A program that starts again resumes there.

from streamgmm import StreamingGaussianMixture

model = StreamingGaussianMixture(4, random_state=0)
for chunk in Readings().chunks():
    model.partial_fit(chunk.rows)
    position = chunk.position
    if position["row"] == 2000:
        break  # as if interrupted
for chunk in Readings().chunks(position):
    model.partial_fit(chunk.rows)
print(model.n_samples_seen_, "samples learned, each once")

# %%
from streamgmm import plots

figure = plots.density(model, names=Readings.feature_names)
