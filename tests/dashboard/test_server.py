"""The server of the page: it answers this machine and its own page only."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from streamgmm import StreamGMMError

pytest.importorskip("bokeh", reason="bokeh is not installed")

from streamgmm.dashboard import server

WEBSOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page that a thread serves."""
    ready: Future[str] = Future()
    loop = asyncio.new_event_loop()

    def run() -> None:
        asyncio.set_event_loop(loop)
        served, page = server.start(tmp_path_factory.mktemp("served") / "run", 0)
        ready.set_result(page)
        loop.run_forever()
        served.stop()
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ready.result(timeout=30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def status(address: str, path: str, **headers: str) -> int:
    """Return the status of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(address).port, timeout=10)
    connection.putrequest("GET", path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    code = connection.getresponse().status
    connection.close()
    return code


def test_its_own_page_is_served(address: str) -> None:
    assert status(address, "/") == 200
    assert status(address, "/", Origin=f"http://{urlsplit(address).netloc}") == 200


def test_dns_rebinding_is_refused(address: str) -> None:
    assert status(address, "/", Host="evil.example") == 403


def test_other_pages_are_refused(address: str) -> None:
    assert status(address, "/", Origin="http://evil.example") == 403
    assert status(address, "/ws", Origin="http://evil.example", **WEBSOCKET) == 403


@pytest.mark.parametrize(
    "path", ["/../../../../etc/passwd", "/static/../../../../../etc/passwd", "/model.safetensors", "/run"]
)
def test_files_are_not_served(address: str, path: str) -> None:
    assert status(address, path) in (403, 404)


@pytest.mark.parametrize("other", ["0.0.0.0", "192.168.1.7", "::"])
def test_other_addresses_are_refused(tmp_path: Path, other: str) -> None:
    with pytest.raises(StreamGMMError, match=f"address is {other};.* use an SSH tunnel"):
        server.serve(tmp_path, 0, other)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StreamGMMError, match=f"port {port} is not available .*Choose another port"):
            server.serve(tmp_path, port)
