"""The status of a ThroughputProfile: what its curves say, or why they cannot be read."""

from collections.abc import Sequence
from datetime import datetime

from mtpilot.api.conditions import ConditionStatus
from mtpilot.api.throughput_profile import ProfileCondition, ProfileConditionType, ThroughputProfileStatus
from mtpilot.curves.report import status_of
from mtpilot.model.reasons import Reason
from mtpilot.model.snapshot import Profile

from .history import timestamp

_LENGTH = 1024


def profile_status(profile: Profile, now: datetime, before: Sequence[ProfileCondition] = ()) -> ThroughputProfileStatus:
    """The whole status of one generation; the same for equal specs, whatever the profile's name.

    Args:
        now: when the condition changed, if it did.
        before: the conditions that are there: where one holds as it did, its transition time stays.
    """
    status, reason, message = _judge(profile)
    holds = ConditionStatus.TRUE if reason is Reason.CURVES_USABLE else ConditionStatus.FALSE
    last = next((known for known in before if known.type is ProfileConditionType.VALID), None)
    valid = ProfileCondition(
        type=ProfileConditionType.VALID,
        status=holds,
        reason=reason,
        message=message[:_LENGTH],
        observed_generation=profile.generation,
        last_transition_time=last.last_transition_time if last is not None and last.status is holds else timestamp(now),
    )
    return status.model_copy(update={"conditions": (valid,)})


def _judge(profile: Profile) -> tuple[ThroughputProfileStatus, Reason, str]:
    if profile.spec is None:
        problem = f"Not readable: {profile.problem}"[:_LENGTH]
        return ThroughputProfileStatus(observed_generation=profile.generation, message=problem), Reason.PROFILE_UNREADABLE, problem
    status = status_of(profile.spec, profile.generation)
    if not status.contexts:
        return status, Reason.PROFILE_INVALID, status.message or ""
    contexts = ", ".join(str(found.context_tokens) for found in status.contexts)
    return status, Reason.CURVES_USABLE, f"curves of both modes at {contexts} tokens of context"
