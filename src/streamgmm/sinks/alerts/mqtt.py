"""Alerts to an MQTT topic: one message of QoS 1 per alert."""

from __future__ import annotations

from importlib.util import find_spec
from threading import Condition
from time import monotonic
from typing import Any
from uuid import uuid4

from streamgmm.errors import AlertError, MissingExtraError
from streamgmm.sinks.alerts.target import DeliveryError, Target
from streamgmm.transports.broker_urls import FILE_SETTINGS, parse_broker_url, printable, without_secrets
from streamgmm.transports.mqtt_client import (
    DEFAULT_PORT,
    KEEPALIVE_SECONDS,
    SECURE_PORT,
    TIMEOUT_SECONDS,
    is_secure,
    make_client,
)

EXPECTED = "mqtt://[user:password@]host[:1883]/topic"


class MqttTarget(Target):
    """Publish alerts to a topic. The broker must have acknowledged an alert before it counts as delivered.

    Parameters
    ----------
    url : str
        ``mqtt://host:port/topic``; ``mqtts://`` for TLS, with the settings ``ca``, ``cert`` and ``key`` (files).
    """

    batch = 20

    def __init__(self, url: str) -> None:
        if find_spec("paho") is None:
            raise MissingExtraError("MQTT requires paho-mqtt", "mqtt")
        self._secure = is_secure(url)
        port = SECURE_PORT if self._secure else DEFAULT_PORT
        self._place = parse_broker_url(url, port, FILE_SETTINGS, EXPECTED, AlertError)
        self.name = self.key = without_secrets(url)
        topic = self._place.path
        if not topic.isprintable() or "+" in topic or "#" in topic:
            raise AlertError(f"{printable(self.name)} does not name one topic; + and # are for those who subscribe.")
        self._client: Any = None
        self._changed = Condition()
        self._arrived = set[int]()  # numbers of messages that the broker has
        self._failed = ""

    def send(self, lines: list[bytes]) -> None:
        try:
            self._connect()
            end = monotonic() + TIMEOUT_SECONDS
            topic, client = self._place.path, self._client
            sent = {client.publish(topic, line.rstrip(b"\n"), qos=1).mid for line in lines}
            with self._changed:
                while not sent <= self._arrived and not self._failed and monotonic() < end:
                    if not self._changed.wait(min(1.0, end - monotonic())):
                        self.report("no acknowledgement yet")
                if self._failed or not sent <= self._arrived:
                    raise DeliveryError(self._failed or "no acknowledgement in time")
                self._arrived.clear()
        except (DeliveryError, OSError) as problem:
            self.close()  # with what it still holds: that is sent again by the next client
            if isinstance(problem, DeliveryError):
                raise
            raise DeliveryError(problem.strerror or str(problem)) from problem

    def _connect(self) -> None:
        """Connect, unless the connection of the last batch still stands."""
        if self._client is not None and self._client.is_connected():
            return
        self.close()
        settled = False

        def on_connect(client: Any, _: Any, flags: Any, reason: Any, properties: Any) -> None:
            nonlocal settled
            with self._changed:
                settled, self._failed = True, str(reason) if reason.is_failure else ""
                self._changed.notify_all()

        client = make_client(self._place, f"streamgmm-{uuid4().hex[:12]}", secure=self._secure)
        client.on_connect, client.on_publish, client.on_disconnect = on_connect, self._on_publish, self._on_disconnect
        client.connect(self._place.host, self._place.port, keepalive=KEEPALIVE_SECONDS)
        self._client = client
        client.loop_start()
        with self._changed:
            self._changed.wait_for(lambda: settled, TIMEOUT_SECONDS)
        if self._failed or not settled:
            raise DeliveryError(self._failed or "no answer in time", lasting=bool(self._failed))

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.on_disconnect = None
            client.disconnect()
            client.loop_stop()
        self._arrived.clear()
        self._failed = ""

    # Called by the network thread

    def _on_publish(self, client: Any, _: Any, number: int, reason: Any, properties: Any) -> None:
        with self._changed:
            self._arrived.add(number)
            if reason.is_failure:
                self._failed = str(reason)
            self._changed.notify_all()

    def _on_disconnect(self, client: Any, _: Any, flags: Any, reason: Any, properties: Any) -> None:
        with self._changed:
            self._failed = self._failed or f"the connection broke ({reason})"
            self._changed.notify_all()
