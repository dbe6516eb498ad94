"""Ports of the gateway agent: the pods, HAProxy and the engines, as the agent uses them.

The agent is tested against the real HAProxy with pods made up by a test; on a cluster the adapters stand behind these.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mtpilot.model.snapshot import Manifest

from .desired import ActualPool
from .pods import EnginePod
from .waiting import WaitingRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Certificate chain and private key in PEM, and the path under which HAProxy loaded the chain."""

    path: str
    pem: str = field(repr=False)


class PodWatch(Protocol):
    """The pods of one service, its engines and its gateways."""

    def snapshots(self) -> AsyncIterator[tuple[Manifest, ...]]:
        """All pods as they are, first once listed and then after each change; never ends and never raises.

        While the API server does not answer nothing is yielded: the last set stays valid.
        """
        ...


class Gateway(Protocol):
    """HAProxy's runtime interface."""

    async def pool(self) -> ActualPool:
        """The pool as it is.

        Raises:
            GatewayError: HAProxy is not there or did not understand.
        """
        ...

    async def keys(self) -> Mapping[str, str]:
        """The map of API keys as HAProxy has it. Raises GatewayError as above."""
        ...

    async def waiting(self, before: Iterable[WaitingRequest] = ()) -> tuple[WaitingRequest, ...]:
        """Requests without a replica, given those of the last look. Raises GatewayError as above."""
        ...

    async def renew_certificate(self, certificate: Certificate) -> None:
        """Have new connections use it. Raises GatewayError as above, also where HAProxy does not take it."""
        ...

    async def execute(self, commands: Sequence[str]) -> str:
        """Run runtime commands in order; gives HAProxy's answers. Raises GatewayError as above."""
        ...


class EngineSlots(Protocol):
    """What an engine says about itself."""

    async def effective_slots(self, pod: EnginePod) -> int | None:
        """Requests that the engine runs at a time, all its ranks together; None: it did not answer. Never raises."""
        ...


class Limits(Protocol):
    """What the operator publishes for routing."""

    def contention_limit(self) -> int | None:
        """Requests that an mtp replica takes before the batch replicas do; None: no such rule. Never raises."""
        ...


class ApiKeys(Protocol):
    """The clients' keys."""

    def hashes(self) -> Mapping[str, str] | None:
        """SHA-256 of each key → its client's name; None: they cannot be read now, and what HAProxy has stays. Never raises."""
        ...


class Certificates(Protocol):
    """The gateway's own certificate."""

    def current(self) -> Certificate | None:
        """As it is now; None: it cannot be read whole, and what HAProxy has stays. Never raises."""
        ...


class GatewayError(Exception):
    """HAProxy is not there, or did not understand."""
