"""`ports.Clock` over the system's clock."""

from datetime import UTC, datetime


class SystemClock:
    """The time of this machine, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)
