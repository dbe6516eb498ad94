"""Times and numbers as the policy state keeps them: text in a status that anybody may have edited.

The state is safe to lose, so what cannot be read counts as never written.
"""

import math
from datetime import UTC, datetime
from functools import lru_cache

from mtpilot.api.types import parse_duration


def to_text(at: datetime) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_text(text: str | None) -> datetime | None:
    """The aware time, or None where the text is absent or no time; a time without a zone is UTC."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def decimal(value: float) -> str:
    """A CRD decimal of a finite number that is not negative."""
    return f"{max(value, 0.0):.3f}"


def number(value: str | float | None) -> float | None:
    """A finite number that is not negative, or None: NaN, infinity and nonsense are *no data*, never zero."""
    if value is None:
        return None
    try:
        parsed = float(value)
    except ValueError:
        return None
    return parsed if math.isfinite(parsed) and parsed >= 0 else None


def signed(value: str | None) -> float | None:
    """A finite number, or None."""
    if value is None:
        return None
    size = number(value.removeprefix("-"))
    return -size if size is not None and value.startswith("-") else size


@lru_cache(maxsize=1024)
def seconds(duration: str) -> float:
    """Seconds of an API duration such as ``3m``."""
    return parse_duration(duration).total_seconds()
