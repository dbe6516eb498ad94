"""Requests that wait for a replica, by class and age, from HAProxy's list of streams.

HAProxy counts what waits, but not of which class nor for how long. Its list has each stream's age, and the dump of a single
stream the niceness, by which `render.haproxy` marks the requests that wait behind others.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from mtpilot.render.haproxy import BACKEND, BATCH_CLASS, HOLD_SERVER

_STREAM = re.compile(
    rf"^(?P<pointer>0x[0-9a-f]+): proto=\S+ src=(?P<source>\S+) fe=\S+ be={BACKEND} srv=(?:<none>|{HOLD_SERVER}) .*? age=(?P<age>\S+) ",
    re.MULTILINE,
)
_DUMP = re.compile(r"^(?P<pointer>0x[0-9a-f]+): \[.*?\bnice=(?P<nice>-?\d+)", re.MULTILINE | re.DOTALL)
_AGE_PART = re.compile(r"(\d+)([dhms])")
_UNIT_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


class PriorityClass(StrEnum):
    """Values of the priority header."""

    INTERACTIVE = "interactive"
    BATCH = BATCH_CLASS


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A request that no replica has yet. pointer: HAProxy's name for it; source: the client's address and port."""

    pointer: str
    source: str
    age_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequest:
    """A stream and its class."""

    stream: Stream
    priority: PriorityClass


def parse_streams(text: str) -> tuple[Stream, ...]:
    """The waiting ones of `show sess`."""
    return tuple(
        Stream(pointer=found["pointer"], source=found["source"], age_seconds=_age_seconds(found["age"])) for found in _STREAM.finditer(text)
    )


def parse_classes(text: str) -> dict[str, PriorityClass]:
    """Pointer → class, from dumps of single streams; one that has ended meanwhile is not there."""
    return {
        found["pointer"]: PriorityClass.INTERACTIVE if int(found["nice"]) == 0 else PriorityClass.BATCH for found in _DUMP.finditer(text)
    }


def same_request(then: Stream, now: Stream) -> bool:
    """HAProxy uses a pointer again: a younger stream, or another client's, is another request."""
    return (then.pointer, then.source) == (now.pointer, now.source) and then.age_seconds <= now.age_seconds


def lengths_and_ages(waiting: Iterable[WaitingRequest]) -> dict[PriorityClass, tuple[int, int]]:
    """Class → how many wait and for how many seconds the oldest has; zeros where none waits."""
    ages: dict[PriorityClass, list[int]] = {priority: [] for priority in PriorityClass}
    for request in waiting:
        ages[request.priority].append(request.stream.age_seconds)
    return {priority: (len(of_class), max(of_class, default=0)) for priority, of_class in ages.items()}


def _age_seconds(text: str) -> int:
    """From HAProxy's two largest units: "0s", "1m5s", "2h3m"."""
    return sum(int(number) * _UNIT_SECONDS[unit] for number, unit in _AGE_PART.findall(text))
