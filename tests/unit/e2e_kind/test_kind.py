"""The kind cluster's configuration, and the GPUs that its nodes are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from e2e.kind import config, gpus


def node(count: str | None, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n", "labels": {gpus.COUNT_LABEL: count} if count else {}}, "status": status}


def test_gpus_are_put_where_the_label_says_and_the_status_does_not() -> None:
    wanted = {"status": {"capacity": {gpus.RESOURCE: "8"}, "allocatable": {gpus.RESOURCE: "8"}}}
    assert gpus.missing(node("8")) == wanted
    assert gpus.missing(node("8", capacity={gpus.RESOURCE: "8"}, allocatable={"cpu": "2"})) == wanted
    assert gpus.missing(node("8", **wanted["status"])) is None
    assert gpus.missing(node(None)) is None


def test_the_gateway_is_on_loopback_only_and_the_audit_log_outside(tmp_path: Path) -> None:
    path = config.write(tmp_path, 12345)
    document = yaml.safe_load(path.read_text())
    plane, *workers = document["nodes"]
    (port,) = plane["extraPortMappings"]
    assert (port["listenAddress"], port["hostPort"], port["containerPort"]) == ("127.0.0.1", 12345, config.GATEWAY_NODE_PORT)
    assert plane["extraMounts"][0]["hostPath"] == str(tmp_path / "audit")
    assert yaml.safe_load((tmp_path / "audit/policy.yaml").read_text()) == config.AUDIT_POLICY
    assert document["networking"]["disableDefaultCNI"] is True
    products = [worker["labels"]["nvidia.com/gpu.product"] for worker in workers]
    assert len(products) == 3
    assert len(set(products)) == 2
