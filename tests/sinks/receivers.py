"""Targets of alerts for tests: a web server that misbehaves as told, and targets in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from streamgmm.sinks.alerts import Alert, DeliveryError, Target

Answer = tuple[int, dict[str, str]]
OK: Answer = (200, {})
LONG = 30.0  # seconds that nothing takes unless it fails


class Messages(list[str]):
    """What people are told, and a way to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def __call__(self, text: str) -> None:
        with self._changed:
            self.append(text)
            self._changed.notify_all()

    def wait_for(self, words: str) -> str:
        with self._changed:
            assert self._changed.wait_for(lambda: any(words in text for text in self), LONG), list(self)
        return next(text for text in self if words in text)


def alerts(count: int, first: int = 0) -> list[Alert]:
    return [Alert(f"run:{i}", "row", "run", i, score=-float(i)) for i in range(first, first + count)]


def rows(lines: list[bytes]) -> list[int]:
    return [json.loads(line)["row"] for line in lines]


class Memory(Target):
    """A target that refuses alerts while ``down`` makes errors."""

    def __init__(self, key: str = "memory", batch: int = 3) -> None:
        self.name, self.key, self.batch = f"target {key}", key, batch
        self.lines: list[bytes] = []
        self.down: Callable[[], Exception] | None = None
        self.tried = threading.Event()
        self.closed = False

    def send(self, lines: list[bytes]) -> None:
        self.tried.set()
        if self.down is not None:
            raise self.down()
        assert 0 < len(lines) <= self.batch
        self.lines += lines

    def close(self) -> None:
        self.closed = True


def outage() -> DeliveryError:
    return DeliveryError("no route")


class Receiver:
    """A web server on the loopback device; ``answer`` maps the number of a request, from 0, to an answer."""

    def __init__(self, answer: Callable[[int], Answer] = lambda _: OK, port: int = 0) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.accepted: list[dict[str, Any]] = []
        self.leave = threading.Event()  # ends answers that hang
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.requests.append((self.path, dict(self.headers), body))
                status, headers = answer(len(receiver.requests) - 1)
                if status == 0:  # hang
                    receiver.leave.wait()
                    return
                if 200 <= status < 300:
                    receiver.accepted.append(body)
                self.send_response(status)
                for name, value in {"Content-Length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def url(self, path: str = "/hook", login: str = "") -> str:
        return f"http://{login}127.0.0.1:{self.port}{path}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
