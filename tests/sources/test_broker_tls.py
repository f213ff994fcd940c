"""TLS to brokers: certificates are checked against the authority that the URL names."""

from __future__ import annotations

import gc
import subprocess
from pathlib import Path

import pytest

from streamgmm.sources import SourceError, open_source
from tests.sources.servers import Mosquitto, Redis, free_port, program, rows_of

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that is its own authority, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *subject]
    command = [program("openssl"), *new, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def test_redis(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    ca, key = certificate
    tls = ["--tls-cert-file", ca, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", "no"]
    with Redis(tmp_path, *map(str, tls)) as server:
        secure = free_port()
        server.client.config_set("tls-port", secure)
        server.fill("s", [{"a": 1}])
        assert rows_of(list(open_source(f"rediss://127.0.0.1:{secure}/s?ca={ca}").chunks())) == [[1]]
        with pytest.raises(SourceError, match=r"Redis stream s: .*CERTIFICATE_VERIFY_FAILED"):
            list(open_source(f"rediss://127.0.0.1:{secure}/s").chunks())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho leaves the refused socket open
def test_mqtt(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    ca, key = certificate
    with Mosquitto(tmp_path, "allow_anonymous true", f"certfile {ca}", f"keyfile {key}") as broker:
        source = open_source(f"mqtts://{broker.address}/t?ca={ca}", follow=True)
        assert not list(source.chunks())
        source.close()
        with pytest.raises(SourceError, match=r"MQTT topic t: no broker answers .*CERTIFICATE_VERIFY_FAILED"):
            list(open_source(f"mqtts://{broker.address}/t", follow=True).chunks())
        gc.collect()
