"""Which ThroughputProfile a service is decided by, why that one, and what is missing where there is none.

A profile that the spec names is taken as it is. Else those of the model, its revision and its hardware class compete: a context within
a factor of two of the workload's is as good as the same, natural acceptance comes before made-up text, a newer measurement before an
older one, and the name decides what is left.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from mtpilot.api.inference_service import InferenceServiceSpec
from mtpilot.api.throughput_profile import Acceptance, ThroughputProfileSpec
from mtpilot.model.calibration import Calibration
from mtpilot.model.reasons import Reason
from mtpilot.model.snapshot import Profile, Snapshot
from mtpilot.policy.phrases import names
from mtpilot.policy.timing import from_text
from mtpilot.render.arguments import engine_image

from .calibrating import UnusableProfileError, calibrate
from .templates import running_flags

COMMAND = "mtpilot profile fit points.csv -o profile.yaml"
_BY_ACCEPTANCE = (Acceptance.NATURAL, Acceptance.SEMI_SYNTHETIC, Acceptance.SYNTHETIC)
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The profile in use and why, or what is missing.

    calibration: None where `reason` is Uncalibrated or ProfileInvalid. message: one sentence without numbers that move by themselves.
    notes: what speaks against trusting it in full; empty where nothing does.
    """

    calibration: Calibration | None
    profile: Profile | None
    reason: Reason
    message: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    profile: Profile
    spec: ThroughputProfileSpec
    calibration: Calibration
    wanted_tokens: int

    def rank(self) -> tuple[tuple[float, str], ...]:
        """What decides, most important first: (smaller is better, what to say where it decides)."""
        measured = from_text(self.spec.provenance.measured_at)
        newest = -measured.timestamp() if measured is not None else math.inf
        return (
            (float(octaves(self.calibration.context_tokens, self.wanted_tokens)), "its context is nearer"),
            (float(_BY_ACCEPTANCE.index(self.spec.acceptance)), f"{self.spec.acceptance} acceptance comes first"),
            (newest, "it was measured later"),
        )


def workload_context_tokens(spec: InferenceServiceSpec) -> int:
    """Mean context of a request while it decodes."""
    workload = spec.workload
    return workload.context_tokens or workload.input_tokens + workload.output_tokens // 2


def octaves(context_tokens: int, wanted_tokens: int) -> int:
    """How far apart two contexts are: 0 up to a factor of two, 1 up to a factor of four, and so on."""
    return max(math.ceil(abs(math.log2(context_tokens / wanted_tokens))) - 1, 0)


def select(snapshot: Snapshot) -> Selection:
    """The profile for the snapshot's service; the same for equal specs, in whatever order they were listed."""
    spec = snapshot.service.spec
    if spec.profile.name is not None:
        return _named(snapshot, spec.profile.name)
    matching = [profile for profile in snapshot.profiles if profile.spec is not None and _matches(profile.spec, spec)]
    candidates, broken = _candidates(matching, spec)
    if candidates:
        return _best(candidates, snapshot)
    if broken:
        name, problem = broken[0]
        return _none(Reason.PROFILE_INVALID, f"ThroughputProfile {name} cannot be used: {problem}")
    return _none(Reason.UNCALIBRATED, _missing(snapshot))


def _named(snapshot: Snapshot, name: str) -> Selection:
    profile = next((profile for profile in snapshot.profiles if profile.name == name), None)
    if profile is None:
        there = sorted(profile.name for profile in snapshot.profiles)
        shown = f"those there are: {names(tuple(there))}" if there else "there is none"
        text = f"spec.profile.name is {name!r}, and no ThroughputProfile of this namespace has that name ({shown}); `{COMMAND}` makes one"
        return _none(Reason.UNCALIBRATED, text)
    if profile.spec is None:
        return _none(Reason.PROFILE_INVALID, f"ThroughputProfile {name} cannot be read: {profile.problem}")
    candidates, broken = _candidates([profile], snapshot.service.spec)
    if not candidates:
        return _none(Reason.PROFILE_INVALID, f"ThroughputProfile {name} cannot be used: {broken[0][1]}")
    return _chosen(candidates[0], "spec.profile names it", snapshot)


def _matches(profile: ThroughputProfileSpec, spec: InferenceServiceSpec) -> bool:
    measured = profile.model
    same_model = measured.source == spec.model.source and measured.revision in (None, spec.model.revision)
    return same_model and profile.hardware_class == spec.hardware_class


def _candidates(profiles: Sequence[Profile], spec: InferenceServiceSpec) -> tuple[list[_Candidate], list[tuple[str, str]]]:
    """Those with curves of both modes, best first, and (name, problem) of the others."""
    wanted = workload_context_tokens(spec)
    found: list[_Candidate] = []
    broken: list[tuple[str, str]] = []
    for profile in sorted(profiles, key=lambda profile: profile.name):
        assert profile.spec is not None  # noqa: S101 - the callers leave those out
        try:
            calibration = _calibrate(profile.name, profile.spec, wanted)
        except UnusableProfileError as error:
            broken.append((profile.name, str(error)))
        else:
            found.append(_Candidate(profile=profile, spec=profile.spec, calibration=calibration, wanted_tokens=wanted))
    return sorted(found, key=lambda candidate: [value for value, _ in candidate.rank()]), broken


@lru_cache(maxsize=256)
def _calibrate(name: str, spec: ThroughputProfileSpec, context_tokens: int) -> Calibration:
    """Curves and their conclusion cost more than a tick may, and depend on nothing else."""
    return calibrate(name, spec, context_tokens)


def _best(candidates: Sequence[_Candidate], snapshot: Snapshot) -> Selection:
    first, *others = candidates
    if not others:
        return _chosen(first, f"the only one for this model on {first.spec.hardware_class}", snapshot)
    names = ", ".join(other.profile.name for other in others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
    pairs = zip(first.rank(), others[0].rank(), strict=True)
    why = next((text for (mine, text), (theirs, _) in pairs if mine != theirs), "its name comes first")
    return _chosen(first, f"before {names}: {why}", snapshot)


def _chosen(candidate: _Candidate, why: str, snapshot: Snapshot) -> Selection:
    notes = tuple(_notes(candidate, snapshot))
    return Selection(calibration=candidate.calibration, profile=candidate.profile, reason=Reason.PROFILE_IN_USE, message=why, notes=notes)


def _notes(candidate: _Candidate, snapshot: Snapshot) -> list[str]:
    """Differences between what was measured and what runs."""
    spec, measured = snapshot.service.spec, candidate.spec
    notes: list[str] = []
    if measured.model.source != spec.model.source:
        notes.append(f"measured for {measured.model.source}, not {spec.model.source}")
    elif measured.model.revision not in (None, spec.model.revision):
        notes.append(f"measured for revision {measured.model.revision}, not {spec.model.revision or 'the newest'}")
    if measured.hardware_class != spec.hardware_class:
        notes.append(f"measured on {measured.hardware_class}, not {spec.hardware_class}")
    context = candidate.calibration.context_tokens
    if octaves(context, candidate.wanted_tokens):
        notes.append(f"measured with {context} tokens of context, the workload has {candidate.wanted_tokens}")
    notes.extend(_engine_notes(measured, snapshot))
    return notes


def _engine_notes(measured: ThroughputProfileSpec, snapshot: Snapshot) -> list[str]:
    if snapshot.hardware is None:
        return []
    image = engine_image(snapshot.service.spec, snapshot.hardware.spec)
    then, now = _VERSION.search(measured.provenance.engine or ""), _VERSION.search(image.rpartition(":")[2])
    if then is not None and now is not None and then.group() != now.group():
        return [f"measured with {measured.provenance.engine}, the image has {now.group()}"]
    flags = measured.provenance.flags_sha256
    if flags is not None and flags != running_flags(snapshot.service, snapshot.hardware):
        return ["measured with other engine arguments than those that run"]
    return []


def _none(reason: Reason, message: str) -> Selection:
    return Selection(calibration=None, profile=None, reason=reason, message=message)


def _missing(snapshot: Snapshot) -> str:
    """What comes near, so that a typing error is found, and the command that makes what is missing."""
    spec = snapshot.service.spec
    wanted = f"no ThroughputProfile for {spec.model.source} on {spec.hardware_class}"
    near = [profile for profile in snapshot.profiles if profile.spec is not None and profile.spec.model.source == spec.model.source]
    described = [
        f"{profile.name} is of {profile.spec.hardware_class}"
        if profile.spec.hardware_class != spec.hardware_class
        else f"{profile.name} is of revision {profile.spec.model.revision}"
        for profile in near[:3]
        if profile.spec is not None
    ]
    seen = f" ({'; '.join(described)})" if described else ""
    return f"{wanted}{seen}: `{COMMAND}` makes one"
