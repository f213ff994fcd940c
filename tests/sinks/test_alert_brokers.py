"""Alerts to brokers: a real mosquitto, and librdkafka's mock of Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamgmm.errors import AlertError
from streamgmm.sinks.alerts import DeliveryError, Outbox, encode_alert, open_target
from streamgmm.sinks.alerts.kafka import OWN_SETTINGS
from tests.sinks.broker_receivers import MockKafka, Subscriber, read_topic
from tests.sinks.receivers import LONG, alerts
from tests.sources.servers import Mosquitto, free_port
from tests.sources.test_broker_tls import certificate

pytestmark = pytest.mark.services
__all__ = ["certificate"]  # a fixture
LINES = [encode_alert(alert) for alert in alerts(50)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as broker:
        yield broker


@pytest.fixture(scope="module")
def kafka() -> Iterator[MockKafka]:
    with MockKafka() as kafka:
        yield kafka


class TestMqtt:
    def test_alerts_arrive(self, broker: Mosquitto, tmp_path: Path) -> None:
        with Subscriber(broker.port, "plant/alerts") as subscriber:
            target = open_target(broker.url("plant/alerts"))
            assert target.name == f"mqtt://{broker.address}/plant/alerts"
            with Outbox(tmp_path, [target], pytest.fail) as outbox:
                outbox.append(alerts(50))
                assert outbox.drain(LONG)
            broker.publish([("plant/alerts", "{}")])
            subscriber.wait_for({})
        assert [m.get("row") for m in subscriber.messages] == [*range(50), None]

    def test_an_outage(self, tmp_path: Path) -> None:
        (tmp_path / "broker").mkdir()
        with Mosquitto(tmp_path / "broker") as broker:
            target = open_target(broker.url("t"))
            target.send(LINES[:1])
            broker.stop()
            for _ in range(2):
                with pytest.raises(DeliveryError, match=r"Connection refused|the connection broke|in time"):
                    target.send(LINES[:1])
            broker.start()
            target.send(LINES[:1])
            target.close()

    def test_a_login_that_is_refused(self, tmp_path: Path) -> None:
        with Mosquitto(tmp_path, "allow_anonymous false") as broker:
            target = open_target(f"mqtt://me:s3cret@{broker.address}/t")
            with pytest.raises(DeliveryError, match="Not authorized") as caught:
                target.send(LINES[:1])
        assert caught.value.lasting
        assert "s3cret" not in f"{caught.value} {target.name} {target.key}"

    def test_a_topic_that_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "rights").write_text("topic write allowed\n")
        with Mosquitto(tmp_path, "allow_anonymous true", f"acl_file {tmp_path / 'rights'}") as broker:
            target = open_target(broker.url("allowed"))
            target.send(LINES[:1])
            target.close()
            target = open_target(broker.url("forbidden"))
            with pytest.raises(DeliveryError, match="Not authorized"):
                target.send(LINES[:1])

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho leaves refused sockets open
    def test_tls(self, certificate: tuple[Path, Path], tmp_path: Path) -> None:
        ca, key = certificate
        with Mosquitto(tmp_path, "allow_anonymous true", f"certfile {ca}", f"keyfile {key}") as broker:
            target = open_target(f"mqtts://{broker.address}/t?ca={ca}")
            target.send(LINES)
            target.close()
            with pytest.raises(DeliveryError, match="CERTIFICATE_VERIFY_FAILED"):
                open_target(f"mqtts://{broker.address}/t").send(LINES)

    @pytest.mark.parametrize("topic", ["a/#", "+/b", "", "%1b"])
    def test_topics_that_are_none(self, topic: str) -> None:
        with pytest.raises(AlertError, match=r"does not name one topic|is incomplete"):
            open_target(f"mqtt://host/{topic}")


class TestKafka:
    def test_alerts_arrive(self, kafka: MockKafka, tmp_path: Path) -> None:
        with Outbox(tmp_path, [open_target(f"kafka://{kafka.address}/alerts")], pytest.fail) as outbox:
            outbox.append(alerts(50))
            outbox.append(alerts(50))
            assert outbox.drain(LONG)
        found = read_topic(kafka.address, "alerts")
        assert sorted(body["row"] for _, body, _ in found) == sorted([*range(50)] * 2)
        assert all(key == body["id"] for key, body, _ in found)
        assert len({(key, partition) for key, _, partition in found}) == 50, "a burst stays in one partition"

    def test_nobody_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("streamgmm.sinks.alerts.kafka.TIMEOUT_SECONDS", 0)
        monkeypatch.setitem(OWN_SETTINGS, "message.timeout.ms", 100)
        target = open_target(f"kafka://127.0.0.1:{free_port()}/t?sasl.password=s3cret")
        with pytest.raises(DeliveryError) as caught:
            target.send(LINES)
        target.close()
        assert "s3cret" not in f"{caught.value} {target.name} {target.key}"

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("kafka://host", "does not name a topic"),
            ("kafka://host/a/b", "does not name a topic"),
            ("kafka://me:s3cret@host/a", "has a login before its host"),
            ("kafka://host/a?acks=0", "acks is not allowed .* no alert is lost"),
            ("kafka://host/a?plugin.library.paths=x", "it would load code"),
            ("kafka://host/a?no.such=s3cret", "No such configuration property"),
        ],
    )
    def test_urls_that_are_none(self, url: str, message: str) -> None:
        with pytest.raises(AlertError, match=message) as caught:
            open_target(url)
        assert "s3cret" not in str(caught.value)
