"""Clients of MQTT brokers, with their login and TLS."""

from __future__ import annotations

from typing import Any

from streamgmm.transports.broker_urls import FILE_SETTINGS, BrokerUrl

DEFAULT_PORT, SECURE_PORT = 1883, 8883
TIMEOUT_SECONDS, KEEPALIVE_SECONDS = 10.0, 60


def is_secure(url: str) -> bool:
    """Return whether a URL asks for TLS."""
    return url.startswith("mqtts:")


def make_client(place: BrokerUrl, name: str, *, secure: bool, manual_ack: bool = False) -> Any:
    """Return a client of paho for MQTT 5 that is not connected yet.

    Parameters
    ----------
    place : BrokerUrl
        The broker, and how to log in.
    name : str
        Name of the client.
    secure : bool
        Whether to use TLS.
    manual_ack : bool, default=False
        Whether the caller acknowledges messages.
    """
    from paho.mqtt import client as paho
    from paho.mqtt.enums import CallbackAPIVersion

    client: Any = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5, manual_ack=manual_ack)
    if place.user is not None:
        client.username_pw_set(place.user, place.password)
    if secure:
        client.tls_set(*(place.settings.get(setting) for setting in FILE_SETTINGS))
    client.connect_timeout = TIMEOUT_SECONDS
    return client
