"""Where, when and how a run was taken."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from .records import known_fields

SCHEMA = "mtpilot.dev/evidence/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One server that was measured, as it described itself. Arguments are the resolved ones, secrets redacted.

    `slots` is the effective limit of running requests of the whole server, `asked_slots` what its arguments ask for.
    """

    mode: str
    route: str
    url: str
    engine: str
    model: str
    slots: int | None
    asked_slots: int | None
    launch_command: str | None
    arguments: Mapping[str, Any]
    server_info: Mapping[str, Any]
    flags_sha256: str
    hardware_class: str | None = None
    image: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where, when and how a run was taken. `started_at` and `finished_at` are RFC 3339 in UTC; `finished_at` is None while it runs.

    `acceptance` is Natural, SemiSynthetic or Synthetic (api/throughput_profile.py); `plan` all parameters of the run that do not stand
    in the records; `flags_sha256` the digest of both modes' arguments as a profile has it, None unless both were measured; `warnings`
    what makes the figures unlike one another or unlike production.
    """

    run_id: str
    mtpilot_version: str
    started_at: str
    finished_at: str | None
    acceptance: str
    engines: tuple[Engine, ...]
    plan: Mapping[str, Any]
    batches: int
    requests: int
    warnings: tuple[str, ...] = ()
    flags_sha256: str | None = None
    host: Mapping[str, Any] = field(default_factory=dict)
    schema: str = SCHEMA

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Raises ValueError where it is not an environment of this schema."""
        if document.get("schema") != SCHEMA:
            raise ValueError(f"schema is {document.get('schema')!r}, not {SCHEMA!r}")
        values = known_fields(cls, document)
        values["engines"] = tuple(Engine(**known_fields(Engine, engine)) for engine in values["engines"])
        values["warnings"] = tuple(values["warnings"])
        return cls(**values)
