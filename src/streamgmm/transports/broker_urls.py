"""URLs of brokers, and how to show them without their secrets."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from streamgmm.errors import SourceError, StreamGMMError

FILE_SETTINGS = ("ca", "cert", "key")  # for TLS


class BrokerUrl(NamedTuple):
    """Where a broker is, and how to log in.

    Parameters
    ----------
    host : str
        Name or address of the machine.
    port : int
        Its port.
    user : str or None
        Name to log in with.
    password : str or None
        Password to log in with.
    path : str
        What follows the host, decoded and without its first slash.
    settings : dict of str to str
        What follows the question mark.
    """

    host: str
    port: int
    user: str | None
    password: str | None
    path: str
    settings: dict[str, str]

    @property
    def address(self) -> str:
        """Host and port, without secrets."""
        return f"{self.host}:{self.port}"


def parse_broker_url(
    url: str, port: int, known: Collection[str], expected: str, error: type[StreamGMMError] = SourceError
) -> BrokerUrl:
    """Split the URL of a broker; raise an error, which never quotes secrets, if it is not one.

    Parameters
    ----------
    url : str
        ``scheme://[user:password@]host[:port]/path[?setting=value]``. A ``#`` is part of the path.
    port : int
        The port if the URL has none.
    known : collection of str
        Names of settings.
    expected : str
        The form of such a URL, for messages.
    error : type of StreamGMMError, default=SourceError
        What to raise.
    """
    parts = urlsplit(url, allow_fragments=False)
    path = unquote(parts.path.removeprefix("/"))
    if "@" in parts.path + parts.query:
        raise error("a URL has an @ after its host; write it as %40, and / or ? in a password as %2F or %3F.")
    if not parts.hostname or not path:
        raise error(f"{without_secrets(url)} is incomplete; expected {expected}.")
    settings = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise error(f"setting {unknown[0]!r} of a URL is unknown; expected {', '.join(known)}.")
    for name in FILE_SETTINGS:
        if name in settings and not Path(settings[name]).is_file():
            raise error(f"setting {name} of a URL is not a file; expected one in PEM format.")
    user, password = (None if text is None else unquote(text) for text in (parts.username, parts.password))
    return BrokerUrl(parts.hostname, port_of(parts, expected, error) or port, user or None, password, path, settings)


def port_of(parts: SplitResult, expected: str, error: type[StreamGMMError] = SourceError) -> int | None:
    """Return the port of a URL, or None if it has none; raise an error if it cannot be one.

    Parameters
    ----------
    parts : SplitResult
        The URL.
    expected : str
        The form of such a URL, for messages.
    error : type of StreamGMMError, default=SourceError
        What to raise.
    """
    try:
        return parts.port
    except ValueError:
        raise error(f"the port of {parts.hostname} is not a number below 65536; expected {expected}.") from None


def printable(text: str) -> str:
    r"""Return a text; characters that could control a terminal become escapes.

    >>> printable("plant/1"), printable("plant/\x1b[2J")
    ('plant/1', 'plant/\\x1b[2J')
    """
    return text if text.isprintable() else ascii(text)[1:-1]


def without_secrets(text: str) -> str:
    """Return the name of a source or a target without user, password and settings, if it is a URL.

    Of ``http://`` and ``https://`` only the host is left: the path of a webhook often is its secret.

    Parameters
    ----------
    text : str
        What a user has typed.

    Examples
    --------
    >>> without_secrets("mqtt://me:secret@host/plant/#")
    'mqtt://host/plant/#'
    >>> without_secrets("kafka://host:9092/topic?sasl.password=secret")
    'kafka://host:9092/topic?…'
    >>> without_secrets("https://hooks.example.com/services/T0/secret")
    'https://hooks.example.com/…'
    >>> without_secrets("readings.csv")
    'readings.csv'
    """
    scheme, colon, rest = text.partition("://")
    place, question, settings = rest.partition("?")
    if "@" in settings:  # a question mark in a password, or an @ in a setting
        return f"{scheme}://…"
    if colon and scheme.lower() in ("http", "https"):
        host, slash, path = place.partition("/")
        if "@" in path:
            return f"{scheme}://…"
        return f"{scheme}://{host.rpartition('@')[2]}{'/…' if path or question else slash}"
    return f"{scheme}{colon}{place.rpartition('@')[2]}{question}{'…' if question else ''}"
