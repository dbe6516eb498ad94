"""Numbers and times in the words of messages: the same everywhere, so that a status can be read without the source."""

from datetime import UTC, datetime, timedelta

from mtpilot.api.types import format_duration


def rate(tokens_per_second: float) -> str:
    return f"{tokens_per_second:.0f} tok/s"


def clock(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%H:%M:%SZ")


def count(value: float) -> str:
    """A number of requests, which Prometheus gives as a float."""
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def empty_queue(queued: float) -> str:
    """The condition of a limit that holds for an empty queue, with how far off it is."""
    return f"with an empty queue ({count(queued)} queued now)" if queued > 0 else "with an empty queue"


def amount(value: float) -> str:
    """A number of which the size matters: two or three digits, `2.1k` from a thousand on."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}" if value >= 10 or value < 0.05 else f"{value:.1f}"


def span(seconds: float) -> str:
    """A duration as the API writes it; whole seconds from one second on."""
    return format_duration(timedelta(seconds=round(seconds) if seconds >= 1 else seconds))


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def names(items: tuple[str, ...], most: int = 3) -> str:
    """`a, b, c and 2 more`."""
    shown = ", ".join(items[:most])
    return f"{shown} and {len(items) - most} more" if len(items) > most else shown
