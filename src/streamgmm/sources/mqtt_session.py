"""A session with an MQTT broker: messages wait here, and are acknowledged when they are safe."""

from __future__ import annotations

import ssl
import time
from collections import deque
from threading import Condition
from typing import Any, NamedTuple

from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.broker_urls import BrokerUrl
from streamgmm.sources.mqtt_rows import Message
from streamgmm.sources.outages import FIRST_PAUSE, LONGEST_PAUSE, Outage, tell

TIMEOUT_SECONDS, KEEPALIVE_SECONDS = 10.0, 60
MOST_WAITING, WAITING_BYTES = 10_000, 1 << 24  # messages; then the network thread waits, and so does the broker
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
    """A connection that is renewed when it breaks.

    Parameters
    ----------
    source : str
        Name of the source, for messages.
    login : Login
        Who connects to what.
    number : int
        How many messages that need an acknowledgement came before this session.

    Attributes
    ----------
    taken : int
        Number of the last message that was taken.
    acknowledged : int
        Number up to which messages are acknowledged.
    closed : bool
        Whether the session is over.
    """

    def __init__(self, source: str, login: Login, number: int = 0) -> None:
        self._source, self._login = source, login
        self.taken = self.acknowledged = self._arrived = number
        self.closed = False
        self._changed = Condition()
        self._waiting: deque[Message] = deque()
        self._waiting_bytes = 0
        self._held: dict[int, int] = {}  # numbers of messages to acknowledge, by packet id
        self._notes: deque[tuple[str, str]] = deque()  # what the network thread wants to be told
        self._breaks: deque[float] = deque(maxlen=OFTEN)  # when the connection broke
        self._problem: SourceError | None = None
        self._connected, self._before, self._warned = False, login.known, False
        self._outage = Outage(f"the broker at {login.place.address}")
        self._client = self._make_client()

    def _make_client(self) -> Any:
        from paho.mqtt import client as paho
        from paho.mqtt.enums import CallbackAPIVersion

        login = self._login
        client: Any = paho.Client(
            CallbackAPIVersion.VERSION2, login.client, protocol=paho.MQTTv5, manual_ack=login.keeps
        )
        if login.place.user is not None:
            client.username_pw_set(login.place.user, login.place.password)
        if login.secure:
            client.tls_set(*(login.place.settings.get(name) for name in ("ca", "cert", "key")))
        client.connect_timeout = TIMEOUT_SECONDS
        client.reconnect_delay_set(FIRST_PAUSE, LONGEST_PAUSE)
        client.on_connect, client.on_connect_fail = self._on_connect, self._on_connect_fail
        client.on_subscribe, client.on_message = self._on_subscribe, self._on_message
        client.on_disconnect = self._on_disconnect
        return client

    def open(self, *, patient: bool) -> None:
        """Connect and subscribe.

        Parameters
        ----------
        patient : bool
            Whether to wait for a broker that does not answer; otherwise raise ``SourceError``.
        """
        from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        keeps, place = self._login.keeps, self._login.place
        properties.SessionExpiryInterval = EXPIRY_SECONDS if keeps else SHORT_EXPIRY_SECONDS
        settings: dict[str, Any] = {
            "clean_start": False if keeps else MQTT_CLEAN_START_FIRST_ONLY,
            "properties": properties,
            "keepalive": KEEPALIVE_SECONDS,
        }
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
        with self._changed:
            self._changed.wait_for(lambda: self._connected or self._problem, TIMEOUT_SECONDS)
        if self._problem is not None:
            raise self._problem
        if not patient and not self._connected:
            raise self._no_answer("no reply")

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
            with self._changed:
                if not (self._waiting or self._notes or self._problem or self.closed):
                    self._changed.wait(max(0.0, end - time.monotonic()))
                messages = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
                self._waiting_bytes -= sum(len(m.payload) for m in messages)
                notes, problem = list(self._notes), self._problem
                self._notes.clear()
                self._changed.notify_all()
            self._tell(notes)
            if problem is not None and not messages:
                raise problem
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
        with self._changed:
            self.acknowledged = max(self.acknowledged, number)
            if not self._connected:
                return  # until the connection is renewed
            safe = [packet for packet, at in self._held.items() if at <= number]
            for packet in safe:
                del self._held[packet]
        for packet in safe:
            self._client.ack(packet, 1)

    def close(self) -> None:
        """Send what is left to send, and disconnect. The broker keeps the session for a while."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        self._client.disconnect()
        self._client.loop_stop()

    def _tell(self, notes: list[tuple[str, str]]) -> None:
        for kind, text in notes:
            if kind == "down":
                self._outage.fail(text)
            elif kind == "up":
                self._outage.end()
            else:
                tell(f"{self._source}: {text}")

    # Called by the network thread

    def _note(self, kind: str, text: str = "") -> None:
        with self._changed:
            self._notes.append((kind, text))
            self._changed.notify_all()

    def _fail(self, message: str, *remedies: Remedy) -> None:
        with self._changed:
            self._problem = SourceError(f"{self._source}: {message}.", *remedies)
            self._changed.notify_all()
        self._client.disconnect()

    def _on_connect(self, client: Any, _: Any, flags: Any, reason: Any, properties: Any) -> None:
        from paho.mqtt.subscribeoptions import SubscribeOptions

        if reason.is_failure:
            if not self._before and reason.value in PERMANENT:
                self._fail(f"the broker refuses the connection ({reason})")
            else:
                self._note("down", str(reason))
            return
        self._note("up")
        with self._changed:
            if not flags.session_present:
                self._held.clear()
        if self._before and not flags.session_present:
            self._note("lost", "the broker has forgotten this reader; what was published meanwhile is lost.")
        options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe(self._login.place.path, options=options)

    def _on_connect_fail(self, client: Any, _: Any) -> None:
        self._note("down", "connection failed")

    def _on_subscribe(self, client: Any, _: Any, mid: int, reasons: list[Any], properties: Any) -> None:
        if reasons[0].is_failure:
            self._fail(f"the broker refuses the subscription ({reasons[0]})")
            return
        with self._changed:
            self._connected = self._before = True
            self._changed.notify_all()
        self.acknowledge(self.acknowledged)

    def _on_disconnect(self, client: Any, _: Any, flags: Any, reason: Any, properties: Any) -> None:
        with self._changed:
            self._connected = False
        if flags.is_disconnect_packet_from_server and reason.value == TAKEN_OVER:
            self._fail(f"another client has connected as {self._login.client}")
        elif not self.closed and self._problem is None:
            self._note("down", str(reason))
            self._breaks.append(time.monotonic())
            if len(self._breaks) == self._breaks.maxlen and self._breaks[-1] - self._breaks[0] < OFTEN_SECONDS:
                self._breaks.clear()
                name = self._login.client
                self._note("often", f"the connection breaks again and again; perhaps another client is called {name}.")

    def _on_message(self, client: Any, _: Any, arrived: Any) -> None:
        with self._changed:
            while not self.closed and (len(self._waiting) >= MOST_WAITING or self._waiting_bytes > WAITING_BYTES):
                self._changed.wait(1.0)
            if arrived.qos and self._login.keeps:
                if (number := self._held.get(arrived.mid)) is not None:  # it was sent again in a new connection
                    if number <= self.acknowledged:  # it was safe, but the broker could not be told
                        del self._held[arrived.mid]
                        client.ack(arrived.mid, 1)
                    return
                self._arrived += 1
                self._held[arrived.mid] = self._arrived
            elif self._login.keeps and not arrived.retain and not self._warned:
                self._warned = True
                self._notes.append(
                    ("qos", "messages have QoS 0: the broker does not keep them while this reader is away.")
                )
            message = Message(_topic(arrived), arrived.payload, arrived.retain, self._arrived)
            self._waiting.append(message)
            self._waiting_bytes += len(message.payload)
            self._changed.notify_all()


def _topic(arrived: Any) -> str:
    try:
        return str(arrived.topic)
    except UnicodeDecodeError:
        return "\ufffd\x00"  # neither printable nor a column
