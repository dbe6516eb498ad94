"""The kind cluster: found as it was made before, or made anew; reached from here on 127.0.0.1 only."""

from __future__ import annotations

import base64
import json
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import yaml
from rich.console import Console

from e2e import toolchain
from e2e.clusters.api import ApiCluster
from e2e.clusters.kube import write_kubeconfig
from e2e.clusters.local.ports import free_ports
from e2e.kind import config
from e2e.offline import docker, images, network, node_image
from e2e.offline.commands import OfflineError, digest, kind_root, run
from e2e.toolchain.progress import Step, step

_READY_SECONDS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """How the present cluster was made; written beside it, so that another run can tell whether it is still the one that is wanted."""

    digest: str
    gateway_port: int
    images: dict[str, str]


class KindCluster(ApiCluster):
    """A running cluster. `gateway_url`: where node port 30080, on any node, is reached from this machine."""

    def __init__(self, state: Path, made: Made) -> None:
        super().__init__(_admin_kubeconfig(state), toolchain.ensure(["kubectl"])["kubectl"])
        self.images = images.Images(**made.images)
        self.gateway_url = f"http://127.0.0.1:{made.gateway_port}"
        self.audit_log_path = state / "audit" / "audit.log"

    @classmethod
    def found(cls) -> Self | None:
        """Give the cluster that `up` has left, or None."""
        made = _made()
        return cls(_state(), made) if made is not None and docker.answers() and _nodes() else None


def up(console: Console) -> KindCluster:
    """Make the cluster unless the one that is there is of the present pins, and load the present images; OfflineError where that fails."""
    docker.install_packages(console)
    docker.start(console)
    node = node_image.ensure(console)
    current = images.ensure(console)
    wanted = digest([node, config.FILE, Path(config.__file__), Path(network.__file__)])
    made = _made()
    if made is None or made.digest != wanted or not _answers():
        made = Made(digest=wanted, gateway_port=free_ports(1)[0], images={})
        _create(node, made, console)
    with step(console, "images onto the nodes") as loading:
        _load(current, loading)
    _write(Made(digest=wanted, gateway_port=made.gateway_port, images=asdict(current)))
    return KindCluster(_state(), _made() or made)


def down() -> None:
    """Delete the cluster, and end docker where it was started here; what was built stays in the cache."""
    if docker.answers():
        _kind("delete", "cluster", "--name", config.cluster_name())
        if docker.is_ours():
            docker.docker("image", "prune", "--force")
    shutil.rmtree(_state(), ignore_errors=True)
    docker.stop()


def _create(node: str, made: Made, console: Console) -> None:
    state, name = _state(), config.cluster_name()
    with step(console, f"kind cluster {name}") as current:
        _kind("delete", "cluster", "--name", name)
        shutil.rmtree(state, ignore_errors=True)
        path = config.write(state, made.gateway_port)
        _kind(
            "create",
            "cluster",
            "--config",
            path,
            "--image",
            node,
            "--wait",
            "0",
            "--kubeconfig",
            state / "kind.kubeconfig",
            current=current,
        )
        current.note("pod network")
        network.connect(_networks(state))
        current.note("nodes ready")
        kubectl("wait", "--for=condition=Ready", "nodes", "--all", f"--timeout={_READY_SECONDS}s")
        kubectl("--namespace=kube-system", "rollout", "status", "deployment/coredns", f"--timeout={_READY_SECONDS}s")
    _write(made)


def kubectl(*arguments: str) -> str:
    """Run kubectl as the cluster's administrator and give its output; OfflineError when it fails."""
    return run([toolchain.ensure(["kubectl"])["kubectl"], "--kubeconfig", _state() / "kind.kubeconfig", *arguments])


def _networks(state: Path) -> list[network.NodeNetwork]:
    """What each node is called and which pods' addresses are its own, once the controllers have handed them all out."""
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        nodes: list[dict[str, Any]] = json.loads(kubectl("get", "nodes", "--output=json"))["items"]
        if nodes and all("podCIDR" in node["spec"] for node in nodes):
            return [
                network.NodeNetwork(name=node["metadata"]["name"], address=_internal_address(node), pod_block=node["spec"]["podCIDR"])
                for node in nodes
            ]
        time.sleep(0.5)
    raise OfflineError(f"not every node has a block of pod addresses after {_READY_SECONDS} s; see {state}")


def reconnect() -> None:
    """Set the pod network up again: a node's routes are lost when its container starts again."""
    network.connect(_networks(_state()))


def _internal_address(node: dict[str, Any]) -> str:
    return next(str(found["address"]) for found in node["status"]["addresses"] if found["type"] == "InternalIP")


def _load(found: images.Images, current: Step) -> None:
    """The simulator onto the GPU nodes, all else onto the node without a taint."""
    nodes = sorted(_nodes())
    plane = [node for node in nodes if node.endswith("-control-plane")]
    for references, targets in (((found.simulator,), [node for node in nodes if node not in plane]), (found.others(), plane)):
        current.note(", ".join(references))
        _kind("load", "docker-image", *references, "--name", config.cluster_name(), "--nodes", ",".join(targets))


def _kind(*arguments: str | Path, current: Step | None = None) -> str:
    return run([toolchain.ensure(["kind"])["kind"], *arguments], step=current)


def _nodes() -> list[str]:
    """Names of the running nodes."""
    label = f"label=io.x-k8s.kind.cluster={config.cluster_name()}"
    return docker.docker("ps", "--filter", label, "--format", "{{.Names}}").split()


def _answers() -> bool:
    if len(_nodes()) != len(yaml.safe_load(config.FILE.read_text())["nodes"]):
        return False
    try:
        kubectl("get", "--raw", "/readyz", "--request-timeout=5s")
    except OfflineError:
        return False
    return True


def _state() -> Path:
    return kind_root() / "cluster"


def _made() -> Made | None:
    path = _state() / "made.json"
    return Made(**json.loads(path.read_text())) if path.exists() else None


def _write(made: Made) -> None:
    (_state() / "made.json").write_text(json.dumps(asdict(made)))


def _admin_kubeconfig(state: Path) -> Path:
    """Kind's kubeconfig with its certificates in files, as this test bed's client reads it."""
    document = yaml.safe_load((state / "kind.kubeconfig").read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    files = {"ca.crt": cluster["certificate-authority-data"]}
    files |= {"admin.crt": user["client-certificate-data"], "admin.key": user["client-key-data"]}
    for name, content in files.items():
        path = state / name
        path.touch(mode=0o600)
        path.write_bytes(base64.b64decode(content))
    entry = {"client-certificate": str(state / "admin.crt"), "client-key": str(state / "admin.key")}
    return write_kubeconfig(state / "admin.kubeconfig", server=cluster["server"], ca_file=state / "ca.crt", user=entry)
