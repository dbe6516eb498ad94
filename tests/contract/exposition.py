"""Reads the Prometheus text format into families, so that two pages can be compared name by name, label by label, type by type."""

import re
from dataclasses import dataclass, field

_SAMPLE = re.compile(r"^([\w:]+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(slots=True)
class Family:
    kind: str
    help: str
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)


def read(page: str) -> dict[str, Family]:
    families: dict[str, Family] = {}
    help_text, current = "", ""
    for line in page.splitlines():
        if line.startswith("# HELP "):
            _, _, _, help_text = line.split(" ", 3)
        elif line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            families[current] = Family(kind, help_text)
        elif line:
            match = _SAMPLE.match(line)
            assert match, line
            name, labels, value = match.groups()
            families[current].samples[name, frozenset(_LABEL.findall(labels or ""))] = float(value)
    return families


def shape(family: Family, *, free: frozenset[str]) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """Sample names with their labels; the values of the labels in `free` do not count, their names do."""
    return {(name, frozenset((key, "*" if key in free else value) for key, value in labels)) for name, labels in family.samples}
