"""The exceptions of the package, and what a user can do about them.

    StreamGMMError
    ├── SourceError      data that cannot be read
    ├── AlertError       alerts that cannot be delivered
    ├── ClusterError     a cluster that cannot be used
    └── ModelFileError   a file that cannot be used as a model

All of them are also a ``ValueError``. Wrong arguments and unsuitable arrays stay plain ``ValueError``.
"""

from __future__ import annotations

from enum import Enum


class Remedy(Enum):
    """What to do about a problem, in the words of the Python API; the command line has its own."""

    CHOOSE_COLUMNS = "Choose the features with columns=[...]."
    DROP_COLUMNS = "Remove columns and id_column."
    NAME_ID = "Name a column that is not a feature with id_column."
    KEEP_INDEX = 'Keep it as the id of rows with id_column="".'
    SKIP_BAD_ROWS = "Skip such rows with skip_bad=True."
    ALLOW_MISSING = "Learn from the other features with missing=True."
    NUMBER_COLUMNS = 'Choose columns by number, from 0: columns=["0", ...].'
    RENAME_COLUMNS = "Rename the columns."
    START_NEW_RUN = "Start a new run to read it from the beginning."
    CONVERT_TO_UTF8 = "Convert the file to UTF-8."
    RESTORE_FILE = "Restore the file from another copy."
    PAD_FILE_NAMES = "Number the files with leading zeros."
    RAISE_RETENTION = "Raise the retention of the topic."
    KEEP_ENTRIES = "Keep more entries in the stream."
    LET_IT_WAIT = "Wait for the broker with follow=True."
    WRITE_TEXT = "Write a .csv or .ndjson file instead."
    RAISE_PRECISION_MAX = "Scale the data with sklearn.preprocessing.StandardScaler, or adjust precision_max."
    KEEP_ORDER = 'Read it in its order with shuffle="no".'
    KEEP_VERSIONS = "Keep some with RunOptions(keep=10)."
    USE_ONE_MACHINE = "Learn it on one machine, with engine=None."
    LOAD_STACK = "Load it with streamgmm.DeepStreamingMixture.load."
    CHANGE_PORT = "Choose another port."
    CHANGE_METRICS_PORT = "Choose another port for the metrics, or 0 for a free one."


class StreamGMMError(ValueError):
    """Base of the package's own exceptions.

    Parameters
    ----------
    message : str
        What arrived, what was expected, and where.
    *remedies : Remedy
        What to do about it, most useful first.
    """

    def __init__(self, message: str, *remedies: Remedy) -> None:
        super().__init__(message, *remedies)
        self.message = message
        self.remedies = remedies

    def __str__(self) -> str:
        return " ".join([self.message, *(remedy.value for remedy in self.remedies)])


class SourceError(StreamGMMError):
    """Data that cannot be read."""


class AlertError(StreamGMMError):
    """A target that alerts cannot be delivered to."""


class ModelFileError(StreamGMMError):
    """A file that cannot be used as a model."""


class ClusterError(StreamGMMError):
    """A cluster that cannot be reached or used."""


class SettingError(ValueError):
    """A setting that is out of range.

    Parameters
    ----------
    name : str
        Name of the setting.
    value : object
        What arrived.
    expected : str
        What was expected.
    in_python : str, default=""
        What else is accepted in Python, but not on the command line.
    """

    def __init__(self, name: str, value: object, expected: str, in_python: str = "") -> None:
        super().__init__(name, value, expected, in_python)
        self.name, self.value, self.expected, self.in_python = name, value, expected, in_python

    def __str__(self) -> str:
        return f"{self.name} is {self.value!r}; expected {self.expected}{self.in_python}."


class MissingExtraError(ImportError):
    """An optional dependency that is not installed.

    Parameters
    ----------
    message : str
        What requires what.
    extra : str
        The extra of the package that installs it.
    """

    def __init__(self, message: str, extra: str) -> None:
        super().__init__(f"{message}: pip install 'streamgmm[{extra}]'")


class DataWarning(UserWarning):
    """A warning about data, with remedies like those of an error.

    Parameters
    ----------
    message : str
        What arrived, what was expected, and where.
    *remedies : Remedy
        What to do about it, most useful first.
    """

    def __init__(self, message: str, *remedies: Remedy) -> None:
        super().__init__(message, *remedies)
        self.message = message
        self.remedies = remedies

    __str__ = StreamGMMError.__str__
