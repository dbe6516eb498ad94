"""What is sent: natural text in several domains, a user's own prompts, or natural text in the lengths of a trace.

Speculation gains by how predictable text is, so words made up or repeated measure an acceptance that no user has. The packaged set is text
that people write, each task asking for a long answer; passages of the task's domain fill a prompt up to the planned length.
"""

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Protocol

# Of a text whose engine has not counted it yet.
TOKENS_PER_CHARACTER = 0.25
# A bound on the text of one planned token: where an engine counts few tokens for many characters the prompt stays shorter.
_MOST_CHARACTERS_PER_TOKEN = 8.0

Weights = Mapping[str, float]
"""Domain to tokens per character, as the engine counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt without its marker."""

    domain: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """Tokens of one request: of its prompt, and the limit of its answer."""

    input_tokens: int
    output_tokens: int


class Prompts(Protocol):
    """Where prompts come from."""

    @property
    def name(self) -> str:
        """What the evidence calls them."""
        ...

    @property
    def domains(self) -> Sequence[str]:
        """The domains that there are, in order."""
        ...

    def prompt(self, number: int, tokens: int, weights: Weights, draw: random.Random) -> Prompt:
        """A prompt of about `tokens`; `number` goes round the domains."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn:
    """The packaged set: tasks and passages by domain."""

    tasks: Mapping[str, Sequence[str]]
    passages: Mapping[str, Sequence[str]]
    name: str = "built-in"

    @property
    def domains(self) -> Sequence[str]:
        return tuple(self.tasks)

    def prompt(self, number: int, tokens: int, weights: Weights, draw: random.Random) -> Prompt:
        domain = self.domains[number % len(self.tasks)]
        task = draw.choice(self.tasks[domain])
        per_character = max(weights.get(domain, TOKENS_PER_CHARACTER), 1 / _MOST_CHARACTERS_PER_TOKEN)
        room = int(tokens / per_character) - len(task)
        parts, passages = [task], list(self.passages[domain])
        while room > 0:
            draw.shuffle(passages)
            for passage in passages:
                parts.append(_cut(passage, room))
                room -= len(parts[-1]) + 2
                if room <= 0:
                    break
        return Prompt(domain=domain, text="\n\n".join(parts))

    def only(self, domains: Sequence[str]) -> "BuiltIn":
        """Of these domains alone; ValueError for one that there is not."""
        unknown = [domain for domain in domains if domain not in self.tasks]
        if unknown:
            raise ValueError(f"no domain {', '.join(unknown)}; there are {', '.join(self.tasks)}")
        chosen = tuple(dict.fromkeys(domains))
        return BuiltIn(
            tasks={domain: self.tasks[domain] for domain in chosen},
            passages={domain: self.passages[domain] for domain in chosen},
            name=f"{self.name}: {', '.join(chosen)}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A user's own prompts, sent as they are and in turn."""

    prompts: Sequence[Prompt]
    name: str

    @property
    def domains(self) -> Sequence[str]:
        return tuple(dict.fromkeys(prompt.domain for prompt in self.prompts))

    def prompt(self, number: int, tokens: int, weights: Weights, draw: random.Random) -> Prompt:
        return self.prompts[number % len(self.prompts)]

    @property
    def mean_tokens(self) -> int:
        """A guess of the mean length, before an engine has counted."""
        return max(1, round(sum(len(prompt.text) for prompt in self.prompts) * TOKENS_PER_CHARACTER / len(self.prompts)))


@cache
def built_in() -> BuiltIn:
    """The packaged set (data/README.md)."""
    found: dict[str, dict[str, list[str]]] = {"task": defaultdict(list), "passage": defaultdict(list)}
    for line in files("mtpilot.bench").joinpath("data/prompts.jsonl").read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        found[one["kind"]][one["domain"]].append(one["text"])
    return BuiltIn(tasks=dict(found["task"]), passages=dict(found["passage"]))


def given(text: str, name: str) -> Given:
    """Prompts of JSON lines with `prompt` (or `text`), and `domain` where there are several kinds.

    Raises:
        ValueError: a line is none; the message names it.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            one = json.loads(line)
            words = one.get("prompt", one.get("text"))
        except (ValueError, AttributeError) as error:
            raise ValueError(f"{name}:{number}: {error}") from error
        if not isinstance(words, str) or not words.strip():
            raise ValueError(f"{name}:{number}: no text under `prompt` or `text`")
        found.append(Prompt(domain=str(one.get("domain", "given")), text=words))
    if not found:
        raise ValueError(f"{name}: no prompts in it")
    return Given(prompts=found, name=name)


def _cut(text: str, characters: int) -> str:
    """The beginning of a text, to the end of a word where it has any."""
    if len(text) <= characters:
        return text
    kept = text[:characters]
    at = kept.rfind(" ")
    return kept[:at] if at > characters // 2 else kept
