"""Closed-loop schedules: how many clients wait for answers, for how many minutes.

A job with a fixed number of clients asks for more as soon as it has been answered, so it never overloads anything and is
judged by tokens. Schedules are files of `minutes,clients`, or one of the three that the policy was first judged on.
"""

import csv
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from .loads import ASSUMED_OUTPUT_TOKENS, Load

FEW, MANY = 4, 128  # clients per replica by day (agents) and by night (a batch job)
LEVELS = (2, 4, 8, 16, 32, 64, 128)
RANDOM_MINUTES = 2880
RANDOM_SEED = 3


class ScheduleError(ValueError):
    """A file that is no schedule, with the line that says so."""


def read_schedule(path: Path, *, output_tokens: float = ASSUMED_OUTPUT_TOKENS) -> Load:
    """A closed load from a CSV file with the columns `minutes,clients`, named after the file.

    output_tokens: of an answer; it tells only how long one takes.

    Raises:
        ScheduleError: other columns or values; names the line.
        OSError: the file cannot be read.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        return replace(parse_schedule(path.stem, file), output_tokens=output_tokens)


def parse_schedule(name: str, lines: Iterable[str]) -> Load:
    """See `read_schedule`."""
    rows = csv.reader(lines)
    head = [column.strip() for column in next(rows, [])]
    if not {"minutes", "clients"} <= set(head):
        raise ScheduleError(f"{name}:1: columns minutes,clients are needed, not {','.join(head)[:80]!r}")
    steps: list[tuple[int, float]] = []
    for line, cells in enumerate(rows, start=2):
        if not cells:
            continue
        try:
            minutes, clients = int(cells[head.index("minutes")]), float(cells[head.index("clients")])
        except (ValueError, IndexError) as error:
            raise ScheduleError(f"{name}:{line}: {error}") from error
        if minutes < 1 or not 0 <= clients < float("inf"):
            raise ScheduleError(f"{name}:{line}: minutes must be at least 1 and clients a finite number from 0 on")
        steps.append((minutes, clients))
    if not steps:
        raise ScheduleError(f"{name}: no steps")
    return closed(name, steps)


def closed(name: str, steps: Iterable[tuple[int, float]]) -> Load:
    """A closed load of (minutes, clients), one step after another."""
    return Load(name=name, values=np.concatenate([np.full(minutes, clients, dtype=float) for minutes, clients in steps]), closed=True)


def day_and_night(replicas: int) -> Load:
    """Agents by day, a batch job by night."""
    return closed("day 4, night 128", [(720, FEW * replicas), (480, MANY * replicas), (240, FEW * replicas)])


def random_levels(replicas: int) -> Load:
    """Levels at random, each for 10 minutes to 6 hours, always the same ones."""
    rng = np.random.default_rng(RANDOM_SEED)
    values: list[float] = []
    while len(values) < RANDOM_MINUTES:
        clients = float(rng.choice(LEVELS) * replicas)
        values += [clients] * int(rng.uniform(10, 360))
    return Load(name="random", values=np.array(values[:RANDOM_MINUTES]), closed=True)


def every_20_minutes(replicas: int) -> Load:
    """A load that changes faster than a fleet can follow: whoever follows it loses."""
    return closed("4/128 every 20 min", [(20, FEW * replicas), (20, MANY * replicas)] * 36)


SCHEDULES = (day_and_night, random_levels, every_20_minutes)
