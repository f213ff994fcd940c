"""Alerts: messages about anomalies, delivered at least once to files, webhooks and brokers.

>>> open_target("https://hooks.example.com/services/secret").name
'https://hooks.example.com/…'
"""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from streamgmm.errors import AlertError
from streamgmm.sinks.alerts.message import Alert, close_alert, encode_alert
from streamgmm.sinks.alerts.outbox import Outbox
from streamgmm.sinks.alerts.target import DeliveryError, Target
from streamgmm.transports.broker_urls import printable, without_secrets

__all__ = ["Alert", "AlertError", "DeliveryError", "Outbox", "Target", "close_alert", "encode_alert", "open_target"]

_KINDS = "a file, '-', https://host/path, kafka://host:port/topic or mqtt://host:port/topic"


def open_target(text: str, out: TextIO | None = None) -> Target:
    """Return the target of alerts that a text names; raise ``AlertError`` if it names none.

    Nothing is sent or connected yet, so a target may be down.

    Parameters
    ----------
    text : str
        ``-`` for a stream, ``http://`` or ``https://host/path``, ``kafka://host:port/topic``,
        ``mqtt://`` or ``mqtts://host:port/topic``, or a file to append to.
    out : TextIO or None, default=None
        The stream that ``-`` stands for.
    """
    if text == "-" and out is not None:
        from streamgmm.sinks.alerts.text import StreamTarget

        return StreamTarget(out)
    scheme = text.partition(":")[0].lower()
    if scheme in ("http", "https"):
        from streamgmm.sinks.alerts.webhook import WebhookTarget

        return WebhookTarget(text)
    if scheme == "kafka":
        from streamgmm.sinks.alerts.kafka import KafkaTarget

        return KafkaTarget(text)
    if scheme in ("mqtt", "mqtts"):
        from streamgmm.sinks.alerts.mqtt import MqttTarget

        return MqttTarget(text)
    if "://" in text or not text or text == "-" or not text.isprintable():
        raise AlertError(f"'{printable(without_secrets(text))}' is not a target of alerts; expected {_KINDS}.")
    from streamgmm.sinks.alerts.text import FileTarget

    return FileTarget(Path(text))
