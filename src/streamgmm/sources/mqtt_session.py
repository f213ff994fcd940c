"""A session with an MQTT broker, over a connection that is renewed when it breaks."""

from __future__ import annotations

import ssl
import time
from collections import deque
from threading import Event
from typing import Any, NamedTuple

from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.mqtt_mailbox import Mailbox
from streamgmm.sources.mqtt_rows import Message
from streamgmm.sources.outages import FIRST_PAUSE, LONGEST_PAUSE, Outage, tell
from streamgmm.transports.broker_urls import BrokerUrl, printable
from streamgmm.transports.mqtt_client import KEEPALIVE_SECONDS, TIMEOUT_SECONDS, make_client

EXPIRY_SECONDS, SHORT_EXPIRY_SECONDS = 7 * 24 * 3600, 60  # how long the broker keeps a session
OFTEN, OFTEN_SECONDS = 3, 60.0  # connections that break so often are mentioned
TAKEN_OVER = 0x8E  # reason: another client has connected under this name
PERMANENT = {0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x90}  # reasons why a first attempt to connect is not repeated


class Login(NamedTuple):
    """Who connects to what.

    Parameters
    ----------
    place : BrokerUrl
        The broker; the path is the topic filter.
    secure : bool
        Whether to use TLS.
    client : str
        Name of the client.
    keeps : bool
        Whether the broker keeps messages while the client is away, until they are acknowledged.
    known : bool
        Whether the broker should know the client already.
    """

    place: BrokerUrl
    secure: bool
    client: str
    keeps: bool
    known: bool


class Session:
    """Subscribe to topics, take messages, and acknowledge them when they are safe.

    Parameters
    ----------
    source : str
        Name of the source, for messages to people.
    login : Login
        Who connects to what.
    number : int
        How many messages that need an acknowledgement came before this session.

    Attributes
    ----------
    taken : int
        Number of the last message that was taken.
    """

    def __init__(self, source: str, login: Login, number: int = 0) -> None:
        self._source, self._login, self.taken = source, login, number
        self._mailbox = Mailbox(number)
        self._settled = Event()  # set once the broker has accepted the subscription, or refused
        self._failed: SourceError | None = None
        self._breaks: deque[float] = deque(maxlen=OFTEN)  # when the connection broke
        self._known, self._warned = login.known, False
        self._outage = Outage(f"the broker at {login.place.address}")
        self._client = self._make_client()

    def _make_client(self) -> Any:
        login = self._login
        client = make_client(login.place, login.client, secure=login.secure, manual_ack=login.keeps)
        client.reconnect_delay_set(FIRST_PAUSE, LONGEST_PAUSE)
        client.on_connect, client.on_connect_fail = self._on_connect, self._on_connect_fail
        client.on_subscribe, client.on_message = self._on_subscribe, self._on_message
        client.on_disconnect = self._on_disconnect
        return client

    @property
    def acknowledged(self) -> int:
        """Number up to which messages are acknowledged."""
        return self._mailbox.acknowledged

    @property
    def closed(self) -> bool:
        """Whether the session is over."""
        return self._mailbox.closed

    def open(self, *, patient: bool) -> None:
        """Connect and subscribe.

        Parameters
        ----------
        patient : bool
            Whether to wait for a broker that does not answer; otherwise raise ``SourceError``.
        """
        place, settings = self._login.place, self._connection_settings()
        try:
            self._client.connect(place.host, place.port, **settings)
        except OSError as problem:
            if not patient or isinstance(problem, ssl.SSLError):
                raise self._no_answer(str(problem)) from problem
            self._outage.fail(str(problem))
            self._client.connect_async(place.host, place.port, **settings)
            self._client.loop_start()
            return
        self._client.loop_start()
        settled = self._settled.wait(TIMEOUT_SECONDS)
        if self._failed is not None:
            raise self._failed
        if not settled and not patient:
            raise self._no_answer("no reply")

    def _connection_settings(self) -> dict[str, Any]:
        from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = EXPIRY_SECONDS if self._login.keeps else SHORT_EXPIRY_SECONDS
        clean = False if self._login.keeps else MQTT_CLEAN_START_FIRST_ONLY
        return {"clean_start": clean, "properties": properties, "keepalive": KEEPALIVE_SECONDS}

    def _no_answer(self, reason: str) -> SourceError:
        address = self._login.place.address
        return SourceError(f"{self._source}: no broker answers at {address} ({reason}).", Remedy.LET_IT_WAIT)

    def take(self, most: int, seconds: float) -> list[Message]:
        """Remove and return messages that have arrived; wait for the first one.

        Parameters
        ----------
        most : int
            How many, at most.
        seconds : float
            How long to wait.
        """
        end, messages = time.monotonic() + seconds, list[Message]()
        while not messages and not self.closed and time.monotonic() < end:
            self._mailbox.wait(end)
            for kind, text in self._mailbox.take_notes():
                self._tell(kind, text)
            messages = self._mailbox.take(most)
        if messages:
            self.taken = messages[-1].number
        return messages

    def acknowledge(self, number: int) -> None:
        """Acknowledge messages, so that the broker forgets them and sends more.

        Parameters
        ----------
        number : int
            Number of the last one.
        """
        for packet in self._mailbox.acknowledge(number):
            self._client.ack(packet, 1)

    def close(self) -> None:
        """Send what is left to send, and disconnect. The broker keeps the session for a while."""
        self._mailbox.close()
        self._client.disconnect()
        self._client.loop_stop()

    def _tell(self, kind: str, text: str) -> None:
        if kind == "down":
            self._outage.fail(text)
        elif kind == "up":
            self._outage.end()
        else:
            tell(f"{self._source}: {text}")

    # Called by the network thread

    def _fail(self, message: str) -> None:
        self._failed = SourceError(f"{self._source}: {message}.")
        self._mailbox.fail(self._failed)
        self._settled.set()
        self._client.disconnect()

    def _on_connect(self, client: Any, _: Any, flags: Any, reason: Any, properties: Any) -> None:
        from paho.mqtt.subscribeoptions import SubscribeOptions

        if reason.is_failure:
            if not self._known and reason.value in PERMANENT:
                self._fail(f"the broker refuses the connection ({reason})")
            else:
                self._mailbox.note("down", str(reason))
            return
        self._mailbox.note("up")
        if not flags.session_present:
            self._mailbox.forget()
            if self._known:
                self._mailbox.note("lost", "the broker has forgotten this reader; what it held for it is lost.")
        options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe(self._login.place.path, options=options)

    def _on_connect_fail(self, client: Any, _: Any) -> None:
        self._mailbox.note("down", "connection failed")

    def _on_subscribe(self, client: Any, _: Any, mid: int, reasons: list[Any], properties: Any) -> None:
        if reasons[0].is_failure:
            self._fail(f"the broker refuses the subscription ({reasons[0]})")
        self._known = True
        self._settled.set()

    def _on_disconnect(self, client: Any, _: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._mailbox.disconnect()
        if flags.is_disconnect_packet_from_server and reason.value == TAKEN_OVER:
            self._fail(f"another client has connected as {self._login.client}")
        if self.closed or self._failed is not None:
            return
        self._mailbox.note("down", str(reason))
        self._breaks.append(time.monotonic())
        if len(self._breaks) == OFTEN and self._breaks[-1] - self._breaks[0] < OFTEN_SECONDS:
            self._breaks.clear()
            name = self._login.client
            what = f"the connection breaks again and again; perhaps another client is called {name}."
            self._mailbox.note("often", what)

    def _on_message(self, client: Any, _: Any, arrived: Any) -> None:
        needs_acknowledgement = self._login.keeps and arrived.qos > 0
        if self._login.keeps and not arrived.qos and not arrived.retain and not self._warned:
            self._warned = True
            self._mailbox.note("qos", "messages have QoS 0: the broker does not keep them while this reader is away.")
        packet = arrived.mid if needs_acknowledgement else None
        if self._mailbox.put(_topic(arrived), arrived.payload, retained=arrived.retain, packet=packet):
            client.ack(arrived.mid, 1)


def _topic(arrived: Any) -> str:
    """Return the topic of a message; characters that could control a terminal become escapes."""
    try:
        topic = str(arrived.topic)
    except UnicodeDecodeError:
        return "(not UTF-8)"
    return printable(topic)
