"""From another tool's batches to a run: numbered, with repeats counted, and an environment that says where it came from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from mtpilot.evidence.alike import engine_differences
from mtpilot.evidence.environment import Engine, Environment
from mtpilot.evidence.levels import level_of
from mtpilot.evidence.records import BatchRecord, Record, RequestRecord, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the user tells of an imported run; None, or no entry: the file's own word, where it has one.

    slots: effective running requests of each mode. measured_at: RFC 3339.
    """

    mtpilot_version: str
    model: str | None = None
    hardware_class: str | None = None
    engine: str | None = None
    acceptance: str | None = None
    measured_at: str | None = None
    sampling: Sampling = Sampling.GREEDY
    slots: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file of another tool. mode: as the user says, None: the file must tell it."""

    name: str
    content: bytes
    mode: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One batch with its requests, where the tool tells them, and the engine that served it. Numbers and run are filled in later."""

    batch: BatchRecord
    requests: tuple[RequestRecord, ...]
    engine: Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A run as records."""

    environment: Environment
    records: tuple[Record, ...]


class InvalidImport(ValueError):  # noqa: N818 - the words of the message
    """A file that is not of the tool, or does not tell enough."""


def assembled(
    tool: str,
    sources: Sequence[Source],
    parts: Sequence[Part],
    facts: Facts,
    *,
    acceptance: str,
    started_at: str = "",
    finished_at: str | None = None,
    plan: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
) -> Imported:
    """The run that these batches make, in the order in which they stand.

    Raises:
        InvalidImport: there is none.
    """
    if not parts:
        raise InvalidImport("no batch in it")
    digests = {source.name: sha256(source.content).hexdigest() for source in sources}
    run_id = f"import-{sha256(' '.join(digests.values()).encode()).hexdigest()[:16]}"
    repeats: Counter[Any] = Counter()
    records: list[Record] = []
    for number, part in enumerate(parts):
        level = level_of(part.batch)
        own: dict[str, Any] = {"run_id": run_id, "batch": number, "repeat": repeats[level]}
        repeats[level] += 1
        records += [replace(request, **own) for request in part.requests]
        records.append(replace(part.batch, **own))
    engines: dict[tuple[str, str], Engine] = {}
    changed = []
    for part in parts:
        first = engines.setdefault((part.engine.mode, part.engine.route), part.engine)
        changed += [difference.words for difference in engine_differences(first, part.engine)]
    if changed:
        warnings = (*warnings, f"the engine of one mode was not the same throughout: {'; '.join(dict.fromkeys(changed))}")
    environment = Environment(
        run_id=run_id,
        mtpilot_version=facts.mtpilot_version,
        started_at=facts.measured_at or started_at,
        finished_at=facts.measured_at or finished_at,
        acceptance=facts.acceptance or acceptance,
        engines=tuple(engines.values()),
        plan={"tool": tool, "files": digests, **(plan or {})},
        batches=len(parts),
        requests=len(records) - len(parts),
        warnings=(f"imported from {tool}, which checks no markers", *warnings),
    )
    return Imported(environment=environment, records=tuple(records))


def bucket_of(tokens: float) -> int:
    """The power of two nearest in ratio: lengths of one plan fall together, whatever the requests happened to be."""
    bucket = 1
    while tokens * tokens > 2 * bucket * bucket:  # above the geometric middle of this one and the next
        bucket *= 2
    return bucket
