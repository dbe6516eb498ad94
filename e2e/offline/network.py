"""Pod networking without kind's own CNI image: a ptp interface for each pod, static routes between nodes, masquerade to the outside.

Routes and rules are the node's kernel's: they are gone when a node's container starts again, so `connect` is called again then. No
NetworkPolicy is enforced.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from e2e.offline.docker import docker

POD_NETWORK = "10.244.0.0/16"  # kind's default
_TABLE = "mtpilot-e2e"
_CONFIGURATION = "/etc/cni/net.d/10-mtpilot-e2e.conflist"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNetwork:
    """A node's name (which is its container's), its address, and the block of its pods' addresses."""

    name: str
    address: str
    pod_block: str


def connect(nodes: list[NodeNetwork]) -> None:
    """Let pods reach each other on all nodes, and the outside; safe to call again."""
    for node in nodes:
        docker("exec", "--interactive", node.name, "bash", "-ec", _script(node, nodes), text=json.dumps(_plugins(node)))


def _script(node: NodeNetwork, nodes: list[NodeNetwork]) -> str:
    lines = [f"mkdir -p /etc/cni/net.d; cat > {_CONFIGURATION}"]
    lines += [f"ip route replace {other.pod_block} via {other.address}" for other in nodes if other is not node]
    lines += [
        f"nft add table ip {_TABLE}",
        f"nft 'add chain ip {_TABLE} out {{ type nat hook postrouting priority srcnat; }}'",
        f"nft flush chain ip {_TABLE} out",
        f"nft add rule ip {_TABLE} out ip saddr {POD_NETWORK} ip daddr != {POD_NETWORK} masquerade",
    ]
    return "\n".join(lines)


def _plugins(node: NodeNetwork) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": node.pod_block}]],
    }
    interface = {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": addresses}
    return {
        "cniVersion": "0.4.0",
        "name": "mtpilot-e2e",
        "plugins": [interface, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }
