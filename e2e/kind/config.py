"""What kind is told: `e2e/kind.yaml`, and what depends on this machine and on how the node image came to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from e2e.offline.network import POD_NETWORK

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "e2e" / "kind.yaml"
GATEWAY_NODE_PORT = 30080
_AUDIT = "/etc/kubernetes/audit"

# Requests of accounts in namespaces, by their metadata: what the operator and the gateways' agents ask, and nothing of Kubernetes' own.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


def cluster_name() -> str:
    """Give the name of the cluster."""
    return str(yaml.safe_load(FILE.read_text())["name"])


def document(*, state: Path, gateway_port: int) -> dict[str, Any]:
    """Give the whole configuration: the audit log in `state`, and the gateway's node port on 127.0.0.1:`gateway_port`."""
    found: dict[str, Any] = yaml.safe_load(FILE.read_text())
    found["networking"] |= {"disableDefaultCNI": True, "podSubnet": POD_NETWORK}
    plane = found["nodes"][0]
    plane["extraPortMappings"] = [{"containerPort": GATEWAY_NODE_PORT, "hostPort": gateway_port, "listenAddress": "127.0.0.1"}]
    plane["extraMounts"] = [{"hostPath": str(state / "audit"), "containerPath": _AUDIT}]
    arguments = {"audit-policy-file": f"{_AUDIT}/policy.yaml", "audit-log-path": f"{_AUDIT}/audit.log", "audit-log-mode": "blocking"}
    server = {
        "extraArgs": [{"name": name, "value": value} for name, value in arguments.items()],
        "extraVolumes": [{"name": "audit", "hostPath": _AUDIT, "mountPath": _AUDIT, "readOnly": False, "pathType": "Directory"}],
    }
    manager = {"extraArgs": [{"name": "node-monitor-grace-period", "value": "20s"}]}
    found["kubeadmConfigPatches"] = [
        yaml.safe_dump({"kind": "ClusterConfiguration", "apiServer": server, "controllerManager": manager}),
        # cgroup v1 is what some machines still have.
        yaml.safe_dump({"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "failCgroupV1": False}),
    ]
    return found


def write(state: Path, gateway_port: int) -> Path:
    """Write the configuration and the audit policy to `state`; gives the configuration's path."""
    audit = state / "audit"
    audit.mkdir(parents=True, exist_ok=True)
    (audit / "policy.yaml").write_text(yaml.safe_dump(AUDIT_POLICY))
    path = state / "kind.yaml"
    path.write_text(yaml.safe_dump(document(state=state, gateway_port=gateway_port)))
    return path
