"""Messages of brokers: as they arrived, or packed into arrays."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from streamgmm import native

MESSAGE_BYTES = 100  # memory of a waiting message beside its value


class Messages:
    """Messages as they arrived."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.offsets: list[int] = []

    def __len__(self) -> int:
        return len(self.offsets)

    def put(self, values: list[bytes], offsets: list[int]) -> None:
        """Append messages.

        Parameters
        ----------
        values : list of bytes
            What they contain.
        offsets : list of int
            Where they are in their partition.
        """
        self.values += values
        self.offsets += offsets

    def take(self, count: int) -> Messages:
        """Remove and return the first messages.

        Parameters
        ----------
        count : int
            How many, at most.
        """
        first = Messages()
        first.put(self.values[:count], self.offsets[:count])
        del self.values[:count], self.offsets[:count]
        return first

    def packed(self, width: int) -> Vectors:
        """Return the messages as vectors.

        Parameters
        ----------
        width : int
            Bytes of a vector.
        """
        vectors = Vectors(width, len(self))
        vectors.put(self.values, self.offsets)
        return vectors

    @property
    def size(self) -> int:
        """Bytes of memory that the messages use."""
        return sum(map(len, self.values)) + MESSAGE_BYTES * len(self)


class Vectors:
    """Messages of one size, side by side in one array.

    Parameters
    ----------
    width : int
        Bytes of a message. Of a message of another size only the size is kept.
    capacity : int
        How many messages fit.

    Attributes
    ----------
    offsets : list of int
        Offset of each message in its partition.
    odd : dict of int to int
        Sizes of the messages of another size, by row.
    """

    def __init__(self, width: int, capacity: int) -> None:
        self.offsets: list[int] = []
        self.odd: dict[int, int] = {}
        self._rows = np.empty((capacity, width), np.uint8)

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def rows(self) -> npt.NDArray[np.uint8]:
        """The messages, of shape (n, width); zeros for those of another size."""
        return self._rows[: len(self)]

    @property
    def room(self) -> int:
        """How many more messages fit."""
        return len(self._rows) - len(self)

    def put(self, values: list[bytes], offsets: list[int]) -> None:
        """Append messages, at most as many as there is room for.

        Parameters
        ----------
        values : list of bytes
            What they contain.
        offsets : list of int
            Where they are in their partition.
        """
        begin, width = len(self), self._rows.shape[1]
        if not width or set(map(len, values)) != {width}:
            odd = {i: len(v) for i, v in enumerate(values) if len(v) != width or not width}
            self.odd |= {begin + i: size for i, size in odd.items()}
            values = [bytes(width) if i in odd else v for i, v in enumerate(values)]
        native.copy_rows(values, self._rows[begin : begin + len(values)])
        self.offsets += offsets


class VectorBlocks:
    """A queue of blocks of vectors. Messages are copied into place on arrival, while the cache still holds them.

    Parameters
    ----------
    width : int
        Bytes of a vector.
    capacity : int
        Vectors per block.
    """

    def __init__(self, width: int, capacity: int) -> None:
        self._width, self._capacity = width, capacity
        self._blocks: deque[Vectors] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def put(self, values: list[bytes], offsets: list[int]) -> None:
        """Append messages.

        Parameters
        ----------
        values : list of bytes
            What they contain.
        offsets : list of int
            Where they are in their partition.
        """
        at = 0
        while at < len(values):
            if not self._blocks or not self._blocks[-1].room:
                self._blocks.append(Vectors(self._width, self._capacity))
            part = slice(at, at + self._blocks[-1].room)
            self._blocks[-1].put(values[part], offsets[part])
            at = part.stop

    def take(self, count: int) -> Vectors:
        """Remove and return the first block.

        Parameters
        ----------
        count : int
            Ignored: a block has its own size.
        """
        return self._blocks.popleft() if self._blocks else Vectors(self._width, 0)

    @property
    def size(self) -> int:
        """Bytes of memory that the messages use."""
        return (self._width + MESSAGE_BYTES) * len(self)
