"""The server of the dashboard, for this machine only.

Requests for other host names and requests sent by other pages get status 403: the first guards against DNS rebinding,
the second against pages that would read a run through the visitor's browser.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.ioloop import IOLoop
from tornado.routing import AnyMatches, Matcher, Rule, RuleRouter
from tornado.web import Application as WebApplication
from tornado.web import RequestHandler

from streamgmm.dashboard import page
from streamgmm.dashboard.follower import Follower
from streamgmm.errors import Remedy, StreamGMMError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class _Forbidden(RequestHandler):
    """Answers every request with status 403."""

    def prepare(self) -> None:
        self.set_status(403)
        self.finish("This page is only available on this machine, under its own address.\n")


class _ForeignRequests(Matcher):
    """Matches requests for another host name (DNS rebinding), and requests sent by another page."""

    def __init__(self, hosts: set[str]) -> None:
        self._hosts = hosts

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        origin = request.headers.get("Origin")
        same_origin = origin is None or origin.split("://")[-1].lower() in self._hosts
        return None if request.host.lower() in self._hosts and same_origin else {}


def check_address(address: str) -> None:
    """Raise StreamGMMError unless an address belongs to this machine only.

    Parameters
    ----------
    address : str
        Host name or IP address to serve on.
    """
    if address not in LOOPBACK:
        raise StreamGMMError(
            f"address is {address}; the page is served to this machine only. To open it elsewhere, use an SSH tunnel: "
            "ssh -L 5006:localhost:5006 THIS-MACHINE, then open http://localhost:5006/ there."
        )


def start(folder: Path, port: int) -> tuple[BaseServer, str]:
    """Start a server on the event loop of this thread; return it with the address of the page.

    Parameters
    ----------
    folder : Path
        The run folder; it need not exist yet.
    port : int
        Port to listen on; 0 takes a free one.
    """
    follower = Follower(folder)
    follower.poll()
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as problem:
        reason = os.strerror(problem.errno or 0)
        raise StreamGMMError(f"port {port} is not available ({reason}).", Remedy.CHANGE_PORT) from problem
    listener.setblocking(False)
    port = listener.getsockname()[1]
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
    application = Application(FunctionHandler(lambda document: page.build(document, follower)))
    bokeh = BokehTornado({"/": application}, extra_websocket_origins=sorted(hosts))
    forbidden = WebApplication([(r".*", _Forbidden)])
    http = HTTPServer(RuleRouter([Rule(_ForeignRequests(hosts), forbidden), Rule(AnyMatches(), bokeh)]))
    http.add_sockets([listener])
    server = BaseServer(IOLoop.current(), bokeh, http)
    server.start()
    return server, f"http://localhost:{port}/"


def serve(folder: Path, port: int, address: str = "127.0.0.1", ready: Callable[[str], None] = print) -> None:
    """Serve the page of a run until interrupted.

    Parameters
    ----------
    folder : Path
        The run folder; it need not exist yet.
    port : int
        Port to listen on; 0 takes a free one.
    address : str, default="127.0.0.1"
        Address to serve on; only this machine is allowed.
    ready : callable, default=print
        Called with the address of the page once it can be opened.
    """
    check_address(address)
    server, page_address = start(folder, port)
    ready(page_address)
    try:
        server.io_loop.start()
    except KeyboardInterrupt:
        pass
    finally:
        server.stop()
