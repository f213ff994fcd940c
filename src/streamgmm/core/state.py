"""States: dataclasses of arrays and numbers that can be copied, saved, restored and resized without naming a field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from streamgmm.core.tensors import EVERY, Tensors
from streamgmm.native import aligned_copy

if TYPE_CHECKING:
    from streamgmm.core.parameters import Parameters

Named = dict[str, npt.NDArray[Any]]
LARGEST = 1e300


BUFFER = {"buffer": True}
"""Metadata of a field that may be None, and whose array has no fixed shape and no entry per component."""
OPTIONAL = {"optional": True}
"""Metadata of a field of tensors that may become None once they are no longer needed."""
SUMS = {"sums": True}
"""Metadata of a field whose values add up over replicas, such as weight received."""
SHARES = {"shares": True}
"""Metadata of a field whose entries share out a total: selected components keep the total, copies divide theirs."""


@dataclass
class State:
    """Base of what a rule remembers between steps.

    Subclass it as a dataclass. A field holds an array with one entry per component, ``Tensors``, or a plain number;
    ``field(default=None, metadata=BUFFER)`` declares an array of any other shape.
    """

    def named(self) -> Named:
        """Return every field that is not None as an array, by name; those of tensors as ``field.tensor``."""
        found: Named = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Tensors):
                found |= {f"{f.name}.{name}": tensor for name, tensor in value.named().items()}
            elif value is not None:
                found[f.name] = np.asarray(value)
        return found

    def copy(self) -> Self:
        """Copy every array to memory of its own."""
        return replace(self, **{f.name: _copy(getattr(self, f.name)) for f in fields(self)})

    def assign(self, other: Self, rows: slice = EVERY) -> None:
        """Overwrite all values with those of another state; tensors of some components only.

        Arrays keep their memory where shapes agree.
        """
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            if isinstance(mine, Tensors) and isinstance(theirs, Tensors):
                mine.assign(theirs, rows)
            elif isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray) and mine.shape == theirs.shape:
                np.copyto(mine, theirs)
            else:
                setattr(self, f.name, _copy(theirs))

    def restored(self, named: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return a state like this one with the values of ``named``; raise ValueError if they do not fit."""
        return replace(self, **{f.name: _restore(f, getattr(self, f.name), named) for f in fields(self)})

    def validate(self, parameters: Parameters) -> None:
        """Raise ValueError for values that training cannot have made, as a damaged file may hold.

        Types and shapes are known to be right, and numbers to be finite. Subclasses add what they know and call this.
        """
        return

    def select(self, components: npt.NDArray[np.int64]) -> Self:
        """Take the given components, in this order, in every array that has an entry per component."""
        changed: dict[str, Any] = {}
        copies = np.bincount(components)[components]
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Tensors):
                changed[f.name] = value.select(components)
            elif isinstance(value, np.ndarray) and "buffer" not in f.metadata:
                chosen = aligned_copy(value[components])
                if "shares" in f.metadata and (total := (chosen / copies).sum()) > 0:
                    chosen *= value.sum() / total / copies
                changed[f.name] = chosen
        return replace(self, **changed)

    def merge(self, start: Self, replicas: list[Self], taken: list[int], part: slice) -> None:
        """Set some components to what replicas that began at ``start`` have made of them in so many steps each."""
        weights = np.array(taken) / sum(taken)
        for f in fields(self):
            mine, old = getattr(self, f.name), getattr(start, f.name)
            theirs = [getattr(replica, f.name) for replica in replicas]
            if isinstance(mine, Tensors):
                for name, target in mine.named().items():
                    _merge_array(target[part], old[name][part], [t[name][part] for t in theirs], weights)
            elif isinstance(mine, np.ndarray) and "buffer" not in f.metadata:
                shares = np.ones(len(taken)) if "sums" in f.metadata else weights
                _merge_array(mine[part], old[part], [t[part] for t in theirs], shares)
            elif isinstance(mine, int) and not isinstance(mine, bool):
                setattr(self, f.name, old + sum(t - old for t in theirs))
            else:
                setattr(self, f.name, theirs[int(np.argmax(taken))])

    def map_tensors(self, change: Callable[[Tensors], Tensors]) -> Self:
        """Apply a function to every field of tensors."""
        found = {f.name: value for f in fields(self) if isinstance(value := getattr(self, f.name), Tensors)}
        return replace(self, **{name: change(value) for name, value in found.items()})

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Take aligned copies: joblib hands over large arrays as memory maps that cannot be written."""
        vars(self).update({name: _copy(value) for name, value in values.items()})


def _copy(value: Any) -> Any:
    if isinstance(value, Tensors):
        return value.copy()
    return aligned_copy(value) if isinstance(value, np.ndarray) else value


def _restore(f: Field[Any], like: Any, named: Mapping[str, npt.NDArray[Any]]) -> Any:
    own = {name.removeprefix(f"{f.name}."): value for name, value in named.items() if name.startswith(f"{f.name}.")}
    if "optional" in f.metadata and not own:
        return None
    if isinstance(like, Tensors):
        for name, value in like.named().items():
            _require_like(f"{f.name}.{name}", own[name], value)
        return Tensors(like.layout, own, like.dtype)
    if "buffer" in f.metadata:
        return None if f.name not in named else aligned_copy(named[f.name])
    if like is None:
        return None
    value = named[f.name]
    _require_like(f.name, value, np.asarray(like))
    return aligned_copy(value) if isinstance(like, np.ndarray) else type(like)(value.item())


def _require_like(name: str, found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> None:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise ValueError(f"tensor '{name}' is {found.dtype} {found.shape}; expected {wanted.dtype} {wanted.shape}")


def require_range(name: str, values: npt.ArrayLike, least: float, most: float = LARGEST) -> None:
    """Raise ValueError unless all values are within a range."""
    found = np.asarray(values)
    if not found.size:
        return
    low, high = float(found.min()), float(found.max())
    if not (low >= least and high <= most):
        raise ValueError(
            f"tensor '{name}' holds values from {low:.6g} to {high:.6g}; expected {least:.6g} to {most:.6g}"
        )


def _merge_array(
    target: npt.NDArray[Any],
    start: npt.NDArray[Any],
    replicas: list[npt.NDArray[Any]],
    shares: npt.NDArray[np.float64],
) -> None:
    """Move an array from ``start`` by shares of the change of each replica.  OUT target."""
    target[...] = start + np.tensordot(shares, np.stack([replica - start for replica in replicas]), 1)
