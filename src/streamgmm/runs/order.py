"""In which order a run learns the rows of its source."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from streamgmm.core.settings import Settings
from streamgmm.errors import Remedy, SourceError
from streamgmm.runs.options import RunOptions
from streamgmm.sources import BUFFER_BYTES, SeekableSource, ShuffledSource, Source
from streamgmm.storage.run_folder import RunRecord


class Order(NamedTuple):
    """Whether rows are shuffled, and why."""

    shuffled: bool
    reason: str

    def __str__(self) -> str:
        if self.shuffled:
            return f"rows are learned in random order, through a buffer of up to {BUFFER_BYTES >> 20} MB: {self.reason}"
        return f"rows are learned in the order of the source: {self.reason}"


def follows_change(settings: Settings) -> bool:
    """Return whether a model forgets old rows or reacts to drift, so that the order of rows matters.

    Parameters
    ----------
    settings : Settings
        How to train.
    """
    return settings.half_life is not None or bool(settings.reheat)


def choose_order(source: Source, settings: Settings, options: RunOptions) -> Order:
    """Decide whether to shuffle; raise ``SourceError`` if that was asked for and is not possible.

    Parameters
    ----------
    source : Source
        Where rows come from.
    settings : Settings
        How to train.
    options : RunOptions
        What was asked for.
    """
    if options.shuffle == "no":
        return Order(False, "as requested")
    if options.passes is None:
        order = Order(False, "more may follow")
    elif not source.seekable:
        order = Order(False, f"{source.name} can only be read from its start")
    elif options.shuffle == "yes":
        return Order(True, "as requested")
    elif settings.half_life is not None:
        return Order(False, "past rows are forgotten by a half-life")
    elif settings.reheat:
        return Order(False, "the model reacts to drift")
    else:
        return Order(True, "it does not matter how the file is sorted")
    if options.shuffle == "yes":
        raise SourceError(f"the rows of {source.name} cannot be shuffled: {order.reason}.", Remedy.KEEP_ORDER)
    return order


def shuffle(source: Source, seed: int | None) -> Source:
    """Return a source in the order of a seed, or in its own order if that is None or all it can do.

    Parameters
    ----------
    source : Source
        Where rows come from, shuffled or not.
    seed : int or None
        Seed of the order.
    """
    plain = in_order(source)
    return ShuffledSource(plain, seed) if seed is not None and isinstance(plain, SeekableSource) else plain


def continue_in_order(record: RunRecord) -> tuple[RunRecord, bool]:
    """Let a run that was shuffled continue with rows in the order of the source; also return whether it can.

    It can at the end of a pass, with rows that were added since.

    Parameters
    ----------
    record : RunRecord
        Where the run stands.
    """
    position = record.progress.position
    if record.shuffle_seed is None or position is None:
        return replace(record, progress=replace(record.progress, epoch=0)), True
    end = position.get("end")
    known = isinstance(end, dict) and position["row"] >= end["row"]
    progress = replace(record.progress, epoch=0, position=end if known else None)
    return replace(record, shuffle_seed=None, progress=progress), known


def in_order(source: Source) -> Source:
    """Return a source in its own order.

    Parameters
    ----------
    source : Source
        Where rows come from, shuffled or not.
    """
    return source.source if isinstance(source, ShuffledSource) else source
