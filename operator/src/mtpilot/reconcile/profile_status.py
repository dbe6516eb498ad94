"""What the operator reads from a ThroughputProfile's curves, as its status."""

from mtpilot.api.throughput_profile import ThroughputProfileStatus
from mtpilot.model.snapshot import Profile


def profile_status(profile: Profile) -> ThroughputProfileStatus:
    """The whole status of one generation; the same for equal specs."""
    return ThroughputProfileStatus()
