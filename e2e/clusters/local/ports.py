"""Free ports on 127.0.0.1 and a block of pod addresses, so that clusters on one machine do not meet.

A block of pod addresses is claimed by listening on the kubelet's port at its first address: the kernel frees the claim when its holder
dies, whatever way it dies.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from dataclasses import dataclass

_BLOCKS = tuple(ipaddress.IPv4Network("127.1.0.0/16").subnets(new_prefix=20))
_KUBELET_PORT = 10250


def free_ports(count: int) -> list[int]:
    """Give distinct ports that are free now; all are held until the last is known, so that none comes twice."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [opened.getsockname()[1] for opened in sockets]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressBlock:
    """4094 loopback addresses, ours until `release`."""

    network: ipaddress.IPv4Network
    claim: socket.socket

    @classmethod
    def reserve(cls) -> AddressBlock:
        """Claim the first free block of 127.1.0.0/16; RuntimeError when 16 clusters run already."""
        for network in _BLOCKS:
            claim = socket.socket()
            claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                claim.bind((str(network[1]), _KUBELET_PORT))
                claim.listen(1)
            except OSError:
                claim.close()
                continue
            return cls(network=network, claim=claim)
        raise RuntimeError("every block of pod addresses in 127.1.0.0/16 is taken by a running cluster")

    def release(self) -> None:
        """Let others have the block."""
        self.claim.close()
