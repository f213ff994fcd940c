"""Alerts to a Kafka topic: one message per alert, whose key is the id of the burst."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from streamgmm.errors import AlertError, MissingExtraError
from streamgmm.sinks.alerts.target import DeliveryError, Target
from streamgmm.transports.broker_urls import printable, without_secrets

NO_RESOURCES = -194  # librdkafka: the machine is too busy to start a thread
EXPECTED = "kafka://host:port/topic"
TIMEOUT_SECONDS = 10
FORBIDDEN = {"plugin.library.paths": "it would load code"}
OWN_SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    "message.timeout.ms": 1000 * TIMEOUT_SECONDS,
    "linger.ms": 0,
    "logger": None,
    "log_level": 0,
}


class KafkaTarget(Target):
    """Produce alerts to a topic. All replicas in sync must have an alert before it counts as delivered.

    Messages of one burst have the same key, so they stay in their order in one partition.

    Parameters
    ----------
    url : str
        ``kafka://host:port/topic``, optionally followed by ``?`` and settings of librdkafka.
    """

    def __init__(self, url: str) -> None:
        try:
            import confluent_kafka as client
        except ImportError as problem:
            raise MissingExtraError("Kafka requires confluent-kafka", "kafka") from problem
        parts = urlsplit(url)
        self.name = self.key = without_secrets(url)
        self._topic = parts.path.strip("/")
        if not url.isprintable() or not parts.netloc or not self._topic or "/" in self._topic:
            raise AlertError(f"{printable(self.name)} does not name a topic; expected {EXPECTED}.")
        if "@" in parts.netloc:
            raise AlertError(f"{self.name} has a login before its host; expected ?sasl.username=…&sasl.password=….")
        settings = dict(parse_qsl(parts.query))
        taken = next((name for name in settings if name in OWN_SETTINGS or name in FORBIDDEN), None)
        if taken is not None:
            reason = FORBIDDEN.get(taken, "it is chosen so that no alert is lost")
            raise AlertError(f"{taken} is not allowed in the URL of a target: {reason}.")
        self._client: Any = client
        self._producer: Any = None
        self._settings = {**settings, **OWN_SETTINGS, "bootstrap.servers": parts.netloc}
        with suppress(DeliveryError):
            self._connect()

    def _connect(self) -> Any:
        """Return the producer; it connects when it has something to send."""
        if self._producer is None:
            try:
                self._producer = self._client.Producer(self._settings)
            except self._client.KafkaException as problem:
                error = problem.args[0]
                if error.code() == NO_RESOURCES:
                    raise DeliveryError(error.str()) from problem
                raise AlertError(f"{self.name}: {error.str()}.") from problem
        return self._producer

    def send(self, lines: list[bytes]) -> None:
        producer, missing, reasons = self._connect(), len(lines), list[str]()

        def count(error: Any, message: Any) -> None:
            nonlocal missing
            if error is None:
                missing -= 1
            else:
                reasons.append(error.str())

        try:
            for line in lines:
                body = line.rstrip(b"\n")
                producer.produce(self._topic, body, key=_key(body), on_delivery=count)
            for _ in range(TIMEOUT_SECONDS + 1):
                if not producer.flush(1):
                    break
                self.report("no answer yet")
        except (self._client.KafkaException, BufferError) as problem:
            reasons.append(str(problem))
        if missing:
            self.close()  # with what it still holds: that is sent again by the next one
            raise DeliveryError(reasons[0] if reasons else "no answer in time")

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()


def _key(body: bytes) -> bytes:
    """Return the id of an alert; the name of a run may hold what is not Unicode."""
    return str(json.loads(body)["id"]).encode("utf8", "backslashreplace")
