"""The status of a ThroughputProfile: what its curves say, or why they cannot be read."""

from mtpilot.api.throughput_profile import ThroughputProfileStatus
from mtpilot.curves.report import status_of
from mtpilot.model.snapshot import Profile


def profile_status(profile: Profile) -> ThroughputProfileStatus:
    """The whole status of one generation; the same for equal specs, whatever the profile's name."""
    if profile.spec is None:
        return ThroughputProfileStatus(observed_generation=profile.generation, message=f"Not readable: {profile.problem}"[:1024])
    return status_of(profile.spec, profile.generation)
