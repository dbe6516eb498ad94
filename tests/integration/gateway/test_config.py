"""HAProxy's own opinion of the configuration, for every sample and for extreme settings."""

import os
import subprocess
from pathlib import Path

import pytest

from mtpilot.model.snapshot import Service
from mtpilot.render.haproxy import MODES_MAP_FILE, haproxy_config
from mtpilot.render.haproxy_options import KEYS_MAP_FILE
from tests.unit.render.samples import SAMPLES, service, small_spec

EXTREMES = [service(small_spec(gateway={"queueTimeout": timeout}), name="n" * 40) for timeout in ("0s", "1ms", "24h")]
KEYS = [
    service(small_spec(gateway={"apiKeys": keys}), name=name)
    for name, keys in {"keys": {"secretName": "clients"}, "counted": {"secretName": "clients", "maxConcurrentRequests": 3}}.items()
]

AFFINE = service(small_spec(gateway={"affinity": "Conversation"}), name="affine")


@pytest.mark.parametrize("made", [*(sample.service for sample in SAMPLES), *EXTREMES, *KEYS, AFFINE], ids=lambda made: made.name)
def test_haproxy_takes_it_without_a_warning(made: Service, haproxy_binary: Path, tmp_path: Path) -> None:
    config = tmp_path / "haproxy.cfg"
    config.write_text(haproxy_config(made.name, made.spec))
    for name in (MODES_MAP_FILE, KEYS_MAP_FILE):
        (tmp_path / name).touch()
    environment = os.environ | {"MTPILOT_RUN_DIR": str(tmp_path), "POD_IP": "127.64.0.1"}
    checked = subprocess.run(
        [haproxy_binary, "-c", "-q", "-dW", "-f", config], env=environment, capture_output=True, text=True, timeout=20, check=False
    )
    assert checked.returncode == 0, checked.stderr + checked.stdout
    assert checked.stderr == ""
