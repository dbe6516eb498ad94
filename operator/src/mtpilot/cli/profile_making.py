"""From measurements, or from several profiles, to one profile."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from mtpilot.api.throughput_profile import Acceptance, Curve, Provenance, ThroughputProfileSpec
from mtpilot.curves.checks import problems
from mtpilot.curves.fit_profile import Outcome, fit_curves
from mtpilot.curves.measurements import Measured, Measurement, curves_of, measurements_of, measurements_of_profile, measurements_of_table
from mtpilot.curves.table import is_measurement, longest_series
from mtpilot.policy.timing import from_text

from .profile_files import Named, named_fields, read_rows

_WHOLE = ("draft_tokens", "experts", "active_experts")
_NAME_LENGTH = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a measurement besides its numbers: from options, or from columns of the same names. None: not told."""

    model: str | None = None
    revision: str | None = None
    hardware_class: str | None = None
    acceptance: str | None = None
    engine: str | None = None
    flags_sha256: str | None = None
    source: str | None = None
    measured_at: str | None = None
    draft_tokens: int | None = None
    experts: int | None = None
    active_experts: int | None = None

    def over(self, other: "Facts") -> "Facts":
        """These, and the other's where these are silent."""
        return replace(other, **{field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A profile, and why its fit is an interpolation where it is one.

    step_time_mape: see `Outcome`. notes: what was left out or is odd about the measurement.
    """

    named: Named
    why_interpolation: str
    step_time_mape: float | None = None
    notes: tuple[str, ...] = ()


def make(path: Path, told: Facts, *, name: str | None, pair: str | None, contexts: Collection[int], context_tokens: int) -> Made:
    """Fit the measurements of a file.

    Raises:
        OSError, ValueError: it cannot be read, a row is no measurement, rows contradict one another, or something needed is not told.
    """
    rows = read_rows(path)
    if pair is None and "pair_id" in rows[0]:
        raise ValueError("this is a wide table: choose a pair with --pair")
    if pair is None:
        facts, measurements = facts_of_rows(rows), measurements_of(rows, context_tokens)
    else:
        facts, measurements = facts_of_table(rows, pair), measurements_of_table(rows, pair, contexts)
    known = told.over(facts).over(Facts(source=path.name))
    return made_of(measurements, known, name=name, records_sha256=sha256(path.read_bytes()).hexdigest())


def made_of(measurements: Sequence[Measurement], known: Facts, *, name: str | None, records_sha256: str) -> Made:
    """Fit measurements of which everything is known.

    Raises:
        ValueError: a fact is missing, or the API server would refuse what comes out.
    """
    if known.model is None or known.hardware_class is None or known.acceptance is None:
        missing = [f"--{need.replace('_', '-')}" for need in ("model", "hardware_class", "acceptance") if getattr(known, need) is None]
        raise ValueError(f"the rows do not tell everything: give {', '.join(missing)}")
    measured = _measured(measurements)
    outcome = _fit(measured, known)
    spec = _spec(measured.curves, outcome, known, records_sha256)
    return Made(
        named=Named(name=name or name_of(known.model, known.hardware_class), spec=spec),
        why_interpolation=outcome.why_interpolation,
        step_time_mape=outcome.step_time_mape,
    )


def merged(found: Sequence[Named], *, name: str | None) -> Made:
    """Join profiles whose measurements are alike.

    Raises:
        ValueError: fewer than two; two differ, then the message names the field and both values; or together they are more than a
            profile holds.
    """
    if len(found) < 2:
        raise ValueError("merge needs at least two profiles")
    first = found[0]
    for other in found[1:]:
        _refuse_unlike(first, other)
    measured = _measured([one for named in found for one in measurements_of_profile(named.spec)])
    known = Facts(
        draft_tokens=_agreed(found, "draft_tokens"), experts=_agreed(found, "experts"), active_experts=_agreed(found, "active_experts")
    )
    outcome = _fit(measured, known)
    spec = _checked({**dict(first.spec), "curves": measured.curves, "fit": outcome.fit, "provenance": _joined(found)})
    return Made(named=Named(name=name or first.name, spec=spec), why_interpolation=outcome.why_interpolation)


def facts_of_rows(rows: Sequence[Mapping[str, Any]]) -> Facts:
    """Columns besides the numbers.

    Raises:
        ValueError: a column has two values, so these are two measurements.
    """
    found: dict[str, Any] = {}
    for field in fields(Facts):
        values = {str(row[field.name]) for row in rows if row.get(field.name) not in (None, "")}
        if len(values) > 1:
            raise ValueError(f"{field.name} differs between rows: {', '.join(sorted(values))}; fit each by itself")
        if values:
            found[field.name] = _whole(field.name, values.pop()) if field.name in _WHOLE else values.pop()
    return Facts(**found)


def facts_of_table(rows: Sequence[Mapping[str, str]], pair: str) -> Facts:
    """What the wide table says of a pair; the model's source and the hardware class are for the user to name."""
    mine = [row for row in rows if row["pair_id"] == pair and is_measurement(row)]
    if not mine:
        raise ValueError(f"no pair {pair} with measured rows; there are {', '.join(sorted({row['pair_id'] for row in rows}))}")
    drafts = {row["spec_tokens_K"] for row in longest_series(mine)}
    draft = drafts.pop() if len(drafts) == 1 else ""
    sources = sorted({row["source"] for row in mine})
    return Facts(
        acceptance=_acceptance([row["acceptance_data"] for row in mine]),
        engine=mine[0]["engine"] or None,
        source="; ".join(sources)[:1024],
        draft_tokens=int(draft) if draft.isdigit() and int(draft) > 0 else None,
    )


def name_of(model: str, hardware_class: str) -> str:
    """A name for the object, like qwen3.5-122b-a10b-rtx-pro-6000-x4."""
    short = re.sub(r"[^a-z0-9.]+", "-", model.rstrip("/").rpartition("/")[2].lower())
    return f"{short}-{hardware_class}"[:_NAME_LENGTH].strip("-.") or "profile"


def _fit(measured: Measured, known: Facts) -> Outcome:
    if (known.experts is None) != (known.active_experts is None):
        raise ValueError("experts and active_experts belong together")
    with named_fields("spec.fit"):
        return fit_curves(
            measured.curves,
            draft_tokens=known.draft_tokens,
            experts=known.experts,
            active_experts=known.active_experts,
            repeat_noise=measured.repeat_noise,
        )


def _measured(measurements: Sequence[Measurement]) -> Measured:
    with named_fields("spec.curves[]"):
        return curves_of(measurements)


def _spec(curves: tuple[Curve, ...], outcome: Outcome, known: Facts, records_sha256: str) -> ThroughputProfileSpec:
    """Raises ValueError where the API server would refuse it."""
    if known.acceptance not in tuple(Acceptance):
        raise ValueError(f"--acceptance, or the column of that name, must be one of {', '.join(Acceptance)}, not {known.acceptance!r}")
    return _checked(
        {
            "model": {"source": known.model, "revision": known.revision},
            "hardware_class": known.hardware_class,
            "acceptance": known.acceptance,
            "curves": curves,
            "provenance": {
                "source": known.source,
                "measured_at": known.measured_at,
                "engine": known.engine,
                "flags_sha256": known.flags_sha256,
                "records_sha256": records_sha256,
            },
            "fit": outcome.fit,
        }
    )


def _checked(values: Mapping[str, Any]) -> ThroughputProfileSpec:
    """Raises ValueError where the API server would refuse it."""
    with named_fields():
        spec = ThroughputProfileSpec.model_validate(values)
    if found := problems(spec):
        raise ValueError("\n".join(found))
    return spec


def _refuse_unlike(first: Named, other: Named) -> None:
    mine, theirs = first.spec, other.spec
    for field, here, there in (
        ("model.source", mine.model.source, theirs.model.source),
        ("model.revision", mine.model.revision, theirs.model.revision),
        ("hardwareClass", mine.hardware_class, theirs.hardware_class),
        ("acceptance", mine.acceptance, theirs.acceptance),
        ("provenance.engine", mine.provenance.engine, theirs.provenance.engine),
        ("provenance.flagsSha256", mine.provenance.flags_sha256, theirs.provenance.flags_sha256),
    ):
        if here != there:
            raise ValueError(f"spec.{field} differs: {here or 'none'} in {_where(first)}, {there or 'none'} in {_where(other)}")


def _agreed(found: Sequence[Named], field: str) -> int | None:
    """What the fits say of the drafting or the model, where they say it."""
    values = {value for named in found if named.spec.fit is not None and (value := getattr(named.spec.fit, field)) is not None}
    if len(values) > 1:
        raise ValueError(f"spec.fit: {field} differs: {', '.join(map(str, sorted(values)))}")
    return values.pop() if values else None


def _joined(found: Sequence[Named]) -> Provenance:
    """Sources one after another, the latest time, and a digest over the digests in this order."""
    origins = [named.spec.provenance for named in found]
    digests = [origin.records_sha256 for origin in origins]
    joined = None if None in digests else sha256("\n".join(str(digest) for digest in digests).encode()).hexdigest()
    times = [origin.measured_at for origin in origins if origin.measured_at is not None]
    latest = max(times, key=lambda text: from_text(text) or datetime.min.replace(tzinfo=UTC), default=None)
    sources = list(dict.fromkeys(origin.source for origin in origins))
    return origins[0].model_copy(update={"source": "; ".join(sources)[:1024], "measured_at": latest, "records_sha256": joined})


def _where(named: Named) -> str:
    return f"{named.file} ({named.name})" if named.name else named.file


def _whole(field: str, text: str) -> int:
    if not text.isdigit():
        raise ValueError(f"{field} must be a whole number, it is {text!r}")
    return int(text)


def _acceptance(texts: Collection[str]) -> str:
    """Of the wide table's words, the least natural counts."""
    lowered = [text.lower() for text in texts]
    if any(text.startswith(("synthetic", "smoke")) for text in lowered):
        return Acceptance.SYNTHETIC
    return Acceptance.SEMI_SYNTHETIC if any(text.startswith("semi-synthetic") for text in lowered) else Acceptance.NATURAL
