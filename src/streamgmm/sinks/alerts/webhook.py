"""Alerts to a webhook: one HTTP POST per alert, whose body is the JSON object."""

from __future__ import annotations

import base64
import re
from email.utils import parsedate_to_datetime
from hashlib import sha256
from http import HTTPStatus
from http.client import HTTPException
from time import time
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from streamgmm.errors import AlertError
from streamgmm.sinks.alerts.target import DeliveryError, Target
from streamgmm.transports.broker_urls import port_of, printable, without_secrets

EXPECTED = "https://[user:password@]host[:443]/path"
TIMEOUT_SECONDS = 10.0
LONGEST_RETRY_AFTER = 3600.0
PASSING = {408, 425, 429}  # refusals that end by themselves, beside all from 500 on


class WebhookTarget(Target):
    """Post alerts to an address. Any 2xx status means that an alert has arrived.

    Redirects are not followed, because they could lead alerts and passwords anywhere. Proxies are taken from the
    environment, as elsewhere in Python.

    Parameters
    ----------
    url : str
        ``http://host/path`` or ``https://host/path``. User and password become Basic authentication.
    """

    batch = 1

    def __init__(self, url: str) -> None:
        self.name = without_secrets(url)
        parts = urlsplit(url, allow_fragments=False)
        if not url.isprintable() or " " in url or not parts.hostname:
            raise AlertError(f"{printable(self.name)} is not an address; expected {EXPECTED}.")
        port = port_of(parts, EXPECTED, AlertError)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        place = f"{parts.scheme}://{host}{'' if port is None else f':{port}'}"
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._url = place + quote(path, safe="/%:@!$&'()*+,;=~?[]")
        # tokens are long and random, so that a hash does not give them away; a password would not be
        self.key = f"{place}#{sha256(path.encode()).hexdigest()[:16]}"
        self._headers = {"Content-Type": "application/json", "User-Agent": "streamgmm"}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        self._opener = OpenerDirector()
        for handler in (ProxyHandler, HTTPHandler, HTTPSHandler, HTTPDefaultErrorHandler, HTTPErrorProcessor):
            self._opener.add_handler(handler())

    def send(self, lines: list[bytes]) -> None:
        for line in lines:
            request = Request(self._url, line.rstrip(b"\n"), self._headers, method="POST")
            try:
                self._opener.open(request, timeout=TIMEOUT_SECONDS).close()
            except HTTPError as problem:
                problem.close()
                raise _refusal(problem) from None
            except (URLError, OSError, HTTPException) as problem:
                raise DeliveryError(_reason(problem)) from None


def _refusal(answer: HTTPError) -> DeliveryError:
    status = answer.code
    if 300 <= status < 400:
        return DeliveryError(
            f"it redirects to another address (HTTP {status}), and redirects are not followed: enter the final address",
            lasting=True,
        )
    wait = _seconds(answer.headers.get("Retry-After", "")) if status in PASSING or status >= 500 else 0.0
    words = HTTPStatus(status).phrase if status in set(HTTPStatus) else "refused"
    return DeliveryError(f"HTTP {status} {words}", wait, lasting=status < 500 and status not in PASSING)


def _seconds(text: str) -> float:
    """Return how long a header Retry-After asks to wait: a number of seconds or a date."""
    if re.fullmatch(r"\s*\d{1,9}\s*", text):
        wait = float(text)
    else:
        try:
            wait = parsedate_to_datetime(text).timestamp() - time()
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return min(max(wait, 0.0), LONGEST_RETRY_AFTER)


def _reason(problem: Exception) -> str:
    """Return why a request failed; only what the system says, because other texts may quote the address."""
    cause = problem.reason if isinstance(problem, URLError) else problem
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return type(cause).__name__
