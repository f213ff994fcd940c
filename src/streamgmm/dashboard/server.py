"""The server of the page: this machine only, its own page only."""

from __future__ import annotations

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
from tornado.netutil import bind_sockets
from tornado.routing import AnyMatches, Matcher, Rule, RuleRouter
from tornado.web import Application as WebApplication
from tornado.web import RequestHandler

from streamgmm.dashboard import page
from streamgmm.dashboard.reading import Follower

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class _Refuse(RequestHandler):
    """Whoever asks under another name, or for another page's sake."""

    def prepare(self) -> None:
        self.set_status(403)
        self.finish("This page is for this machine and for itself alone.\n")


class _Foreign(Matcher):
    """Requests for another host (a name that was bent to this machine), or sent by another page."""

    def __init__(self, hosts: set[str]) -> None:
        self._hosts = hosts

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        origin = request.headers.get("Origin")
        own = request.host.lower() in self._hosts and (origin is None or origin.split("://")[-1].lower() in self._hosts)
        return None if own else {}


def check_address(address: str) -> None:
    """Raises for anything but this machine."""
    if address not in LOOPBACK:
        raise ValueError(
            f"the page is served to this machine only, not to {address}. To see it from elsewhere, make an SSH tunnel: "
            "ssh -L 5006:localhost:5006 THIS-MACHINE, then open http://localhost:5006/ there."
        )


def serve(folder: Path, port: int, address: str = "127.0.0.1", ready: Callable[[str], None] = print) -> None:
    """Serves the page of a run until interrupted; port 0 takes any that is free. ``ready`` hears the page's address."""
    check_address(address)
    follower = Follower(folder)
    follower.look()
    try:
        sockets = bind_sockets(port, "127.0.0.1")
    except OSError as problem:
        raise ValueError(f"port {port} is taken ({problem.strerror}). Choose another with --port.") from problem
    port = sockets[0].getsockname()[1]
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
    application = Application(FunctionHandler(lambda document: page.build(document, follower)))
    bokeh = BokehTornado({"/": application}, extra_websocket_origins=sorted(hosts))
    refusing = WebApplication([(r".*", _Refuse)])
    http = HTTPServer(RuleRouter([Rule(_Foreign(hosts), refusing), Rule(AnyMatches(), bokeh)]))
    http.add_sockets(sockets)
    server = BaseServer(IOLoop.current(), bokeh, http)
    server.start()
    ready(f"http://localhost:{port}/")
    try:
        server.io_loop.start()
    except KeyboardInterrupt:
        pass
    finally:
        server.stop()
