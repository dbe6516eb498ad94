"""From an evidence package to a profile, or the reasons why it becomes none."""

from dataclasses import replace
from pathlib import Path

from mtpilot.evidence.alike import unlike_words
from mtpilot.evidence.environment import Engine
from mtpilot.evidence.files import read_files
from mtpilot.evidence.measured import Choice, drafted_tokens, engines_of, measurements_of_batches, taken_from
from mtpilot.evidence.package import Package, read_package
from mtpilot.evidence.plausible import ImplausibleRun, implausible
from mtpilot.evidence.verify import Verification, verify

from .profile_making import Facts, Made, made_of


def make_from_package(path: Path, told: Facts, choice: Choice, *, name: str | None, table_only: bool = False) -> Made:
    """Verify the package, take its batches, fit them; the digest of its records goes into the provenance.

    table_only: take the table itself as the curve, which needs no scipy.

    Raises:
        OSError, ValueError: it cannot be read, or something needed is not told.
        ImplausibleRun: it is no whole package, or its run is one that must not become a profile.
    """
    files = read_files(path)
    verified = verify(files)
    if verified.problems:
        raise ImplausibleRun("\n".join(verified.problems))
    package = read_package(files)
    taken = taken_from(package, choice)
    engines = engines_of(package, taken.batches)
    if found := implausible(package, taken.batches):
        raise ImplausibleRun("\n".join(found))
    known = told.over(_facts(package, engines, verified))
    known = replace(known, draft_tokens=None) if table_only else known
    made = made_of(measurements_of_batches(taken.batches, engines), known, name=name, records_sha256=verified.records_sha256)
    if found := implausible(package, taken.batches, made.step_time_mape):
        raise ImplausibleRun("\n".join(found))
    return replace(made, notes=tuple(dict.fromkeys((*taken.notes, *package.environment.warnings, *unlike_words(engines)))))


def _facts(package: Package, engines: list[Engine], verified: Verification) -> Facts:
    """What the environment tells. Of the engines, what all of them say."""
    environment = package.environment
    return Facts(
        model=_agreed({engine.model for engine in engines}),
        hardware_class=_agreed({engine.hardware_class for engine in engines}),
        acceptance=environment.acceptance or None,
        engine=_agreed({engine.engine for engine in engines}),
        flags_sha256=environment.flags_sha256,
        source=f"run {environment.run_id}, {verified.requests} requests; SHA256SUMS {verified.sums_sha256}",
        measured_at=environment.finished_at or environment.started_at or None,
        draft_tokens=drafted_tokens(engines),
    )


def _agreed(values: set[str | None]) -> str | None:
    return next(iter(values)) if len(values) == 1 else None
