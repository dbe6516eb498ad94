"""An argument list as options: a flag and the words that belong to it.

Class arguments and a mode's extra arguments are free text to Kubernetes. Taken apart they can be checked by name, and a
mode can replace what its hardware class says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from mtpilot.api.flags import DROPPED_FLAGS

from .errors import InvalidArguments
from .known_flags import KNOWN_FLAGS, SGLANG_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One flag of an argument list. `words` are as written, `flag` is the spelling used, `index` its place in the list."""

    flag: str
    words: tuple[str, ...]
    index: int

    @property
    def name(self) -> str:
        """The first spelling of the flag, so that `--tp-size` and `--tensor-parallel-size` are one."""
        known = KNOWN_FLAGS.get(self.flag)
        return known.name if known else self.flag

    @property
    def values(self) -> int:
        """How many values it carries, `--flag=value` included."""
        return len(self.words) - 1 + ("=" in self.words[0])

    @property
    def value(self) -> str | None:
        """The first value; None for a switch."""
        _, equals, inline = self.words[0].partition("=")
        return inline if equals else next(iter(self.words[1:]), None)


def split_options(args: Sequence[str], field: str) -> tuple[Option, ...]:
    """Take an argument list apart.

    Raises:
        InvalidArguments: it does not begin with a flag, or has a flag with one dash or none.
    """
    starts = [index for index, word in enumerate(args) if word.startswith("--")]
    if args and (not starts or starts[0] != 0):
        raise InvalidArguments(f"{field}[0]", f"{args[0]!r} is not a flag; a value must follow its flag")
    ends = [*starts, len(args)][1:]
    return tuple(
        Option(flag=args[start].split("=", 1)[0], words=tuple(args[start:end]), index=start)
        for start, end in zip(starts, ends, strict=True)
    )


def check_options(options: Sequence[Option], field: str, *, strict: bool) -> None:
    """Refuse dropped flags, flags given twice and wrong numbers of values; with `strict`, flags that 0.5.23 does not know.

    Without `strict` (the image is another release) a flag that is not in the list passes, to be judged by its own parser.

    Raises:
        InvalidArguments: names the first offender by its place in the list.
    """
    seen: dict[str, Option] = {}
    for option in options:
        place = f"{field}[{option.index}]"
        if option.flag in DROPPED_FLAGS:
            raise InvalidArguments(place, f"{option.flag} was dropped by SGLang {SGLANG_VERSION}; instead: {DROPPED_FLAGS[option.flag]}")
        if option.name in seen:
            raise InvalidArguments(place, f"{option.flag} is given twice (first as {field}[{seen[option.name].index}])")
        seen[option.name] = option
        _check_known(option, place, strict=strict)


def _check_known(option: Option, place: str, *, strict: bool) -> None:
    known = KNOWN_FLAGS.get(option.flag)
    if known is None:
        if strict:
            near = get_close_matches(option.flag, KNOWN_FLAGS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InvalidArguments(place, f"SGLang {SGLANG_VERSION} has no flag {option.flag}{hint}")
    elif not known.accepts(option.values):
        wanted = {"0": "no value", "1": "one value", "?": "at most one value", "+": "at least one value"}[known.values]
        raise InvalidArguments(place, f"{option.flag} takes {wanted}, not {option.values}")
