"""Rows from topics that have one value each.

A row is a round: it ends when every column has a new value, or when a topic reports again before the others did. Topics
that stayed silent in a round are gaps if values may be missing; otherwise they keep their last value, and the first row
is formed once every column has had one. Every reading is therefore learned once, without a clock, and in an order that
depends on the messages alone.
"""

from __future__ import annotations

from typing import Any

from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.base import Position, ReadOptions
from streamgmm.sources.outages import tell

ENOUGH_REPORTS = 3  # of one topic; topics that have reported by then are the columns
MOST_TOPICS = 10_000


class TopicRounds:
    """Collect values of topics into rounds.

    Parameters
    ----------
    source : str
        Name of the source, for messages.
    options : ReadOptions
        How to read it. Columns are names of topics.

    Attributes
    ----------
    columns : list of str or None
        The topics that are features, once they are known.
    """

    def __init__(self, source: str, options: ReadOptions) -> None:
        self._source, self._options = source, options
        self.columns: list[str] | None = None if options.columns is None else list(options.columns)
        self._latest: dict[str, str] = {}
        self._round: dict[str, str] = {}
        self._early: list[tuple[str, str]] = []  # values that arrived before the columns were known
        self._reports: dict[str, int] = {}
        self._incomplete = 0  # rounds before every column has had a value
        self._others: set[str] = set()  # topics that are not columns; people know of the first

    def facts(self) -> dict[str, Any]:
        """Return the values of the present round, as part of a position."""
        return {"latest": dict(self._latest), "round": dict(self._round)}

    def restore(self, position: Position) -> None:
        """Continue a round.

        Parameters
        ----------
        position : dict
            Where reading resumes.
        """
        self._latest, self._round = dict(position.get("latest", {})), dict(position.get("round", {}))

    def restart(self) -> None:
        """Forget values that arrived before the columns were known: they will arrive again."""
        self._early.clear()
        self._reports.clear()

    def put(self, topic: str, value: str, *, retained: bool) -> list[dict[str, str]]:
        """Take a value, and return the rounds that it ends, each by topic.

        Parameters
        ----------
        topic : str
            Where it was published.
        value : str
            What was published.
        retained : bool
            Whether it is old: kept by the broker for new subscribers. It can be a last value, but not a new one.
        """
        if topic == self._options.id_column or retained:
            self._keep(topic, value, retained=retained)
            return []
        if self.columns is not None:
            return self._collect(topic, value)
        if not is_number(value):
            self._mention(topic, f"has {value!a} in topic {topic}, which is not a number: it is not a column")
            return []
        self._early.append((topic, value))
        self._reports[topic] = self._reports.get(topic, 0) + 1
        if len(self._reports) > MOST_TOPICS:
            raise SourceError(f"{self._source} has more than {MOST_TOPICS} topics.", Remedy.CHOOSE_COLUMNS)
        if self._reports[topic] < ENOUGH_REPORTS:
            return []
        self.columns = sorted(self._reports)
        early, self._early = self._early, []
        return [ended for early_topic, text in early for ended in self._collect(early_topic, text)]

    def unheard(self) -> list[str]:
        """Return columns that have never had a value, though others had several."""
        if self._incomplete < ENOUGH_REPORTS:
            return []
        return [c for c in self.columns or [] if c not in self._latest and c not in self._round]

    def _keep(self, topic: str, value: str, *, retained: bool) -> None:
        """Note a value that does not belong to a round."""
        if topic != self._options.id_column and not is_number(value):
            return
        if not retained or (topic not in self._latest and len(self._latest) < MOST_TOPICS):
            self._latest[topic] = value

    def _collect(self, topic: str, value: str) -> list[dict[str, str]]:
        if topic not in (self.columns or ()):
            if self._options.columns is None:
                self._mention(topic, f"has a topic {topic}, which is not a feature: it is ignored")
            return []
        ended = [self._end()] if topic in self._round else []
        self._round[topic] = value
        if len(self._round) == len(self.columns or ()):
            ended.append(self._end())
        return [row for row in ended if row]

    def _end(self) -> dict[str, str]:
        """Return the row of the present round and begin another; empty if not every column has had a value."""
        row, self._round = self._round, {}
        columns = self.columns or []
        if not self._options.missing:
            row = {c: row.get(c, self._latest.get(c, "")) for c in columns if c in row or c in self._latest}
        self._latest |= {topic: value for topic, value in row.items() if is_number(value)}
        if not self._options.missing and len(row) < len(columns):
            self._incomplete += 1
            return {}
        key = self._options.id_column
        return row if key is None or key not in self._latest else {**row, key: self._latest[key]}

    def _mention(self, topic: str, what: str) -> None:
        if not self._others:
            tell(f"{self._source} {what}.", Remedy.CHOOSE_COLUMNS)
        if len(self._others) < MOST_TOPICS:
            self._others.add(topic)


def is_number(text: str) -> bool:
    """Return whether a value is a number.

    Parameters
    ----------
    text : str
        What was published.
    """
    try:
        float(text)
    except ValueError:
        return False
    return True
