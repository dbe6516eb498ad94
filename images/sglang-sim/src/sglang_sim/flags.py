"""The command line of SGLang 0.5.23, rebuilt from a dump of its own parser.

A rendered argument list is only as good as the parser that accepts it. This one has every option of the real parser with
its type, choices and nargs, keeps argparse's abbreviations on as the real one does, and refuses what the real one refuses.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NoReturn

SGLANG_VERSION = "0.5.23"

REMOVED: dict[str, str] = {
    "--mamba-scheduler-strategy": "--mamba-radix-cache-strategy",
    "--cuda-graph-max-bs": "--cuda-graph-max-bs-decode",
    "--cuda-graph-bs": "--cuda-graph-bs-decode",
}
"""Options gone by 0.5.23 and what took their place (the real parser rejects them without saying so)."""

DEPRECATED: dict[str, str] = {
    "--disable-cuda-graph": "--cuda-graph-backend-decode=disabled",
    "--enable-dp-attention": "--attn-dp-size",
}
"""Options that 0.5.23 still takes, with a warning."""

_LAUNCH_PREFIXES = (
    ("python3", "-m", "sglang.launch_server"),
    ("python", "-m", "sglang.launch_server"),
    ("-m", "sglang.launch_server"),
    ("sglang", "serve"),
    ("serve",),
)
_SUFFIXES = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class ServerArgumentParser(argparse.ArgumentParser):
    """argparse with the replacement's name added to the message of a removed option."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        for word in args or ():
            name = str(word).split("=", 1)[0]
            if name in REMOVED:
                self.error(f"unrecognized arguments: {name} (removed in SGLang {SGLANG_VERSION}; use {REMOVED[name]})")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: error: {message}\n")
        sys.exit(2)


class _Deprecated(argparse.Action):
    """Store a constant and warn, as the real parser does."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        hint = DEPRECATED.get(option_string or "", "")
        sys.stderr.write(f"{option_string} is deprecated{'; use ' + hint if hint else ''}\n")
        setattr(namespace, self.dest, True)


def _human_readable_int(text: str) -> int:
    text = text.strip()
    scale = _SUFFIXES.get(text[-1:], 1)
    number = float(text[:-1]) * scale if scale != 1 else int(text)
    if number != int(number):
        raise ValueError(text)
    return int(number)


def _json_list(text: str) -> list[Any]:
    value = json.loads(text)
    if not isinstance(value, list):
        raise ValueError(text)
    return value


def _nullable_str(text: str) -> str | None:
    return None if text in {"", "None", "null"} else text


_TYPES: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "loads": json.loads,
    "human_readable_int": _human_readable_int,
    "json_list_type": _json_list,
    "nullable_str": _nullable_str,
    "parse_cuda_graph_backend_arg": str,
    "parse_cuda_graph_config_arg": json.loads,
}


@cache
def known_flags() -> tuple[dict[str, Any], ...]:
    """Every option of the 0.5.23 parser, as dumped (see data/SOURCES.md)."""
    document = json.loads(files("sglang_sim").joinpath("data/flags.json").read_text())
    return tuple(document["flags"])


def _add(parser: argparse.ArgumentParser, flag: dict[str, Any]) -> None:
    names: list[str] = flag["names"]
    default = flag.get("default")
    action: str = flag["action"]
    if action == "_StoreTrueAction":
        parser.add_argument(*names, dest=flag["dest"], action="store_true", default=default)
    elif action == "BooleanOptionalAction":
        positive = [name for name in names if not name.startswith("--no-")]
        parser.add_argument(*positive, dest=flag["dest"], action=argparse.BooleanOptionalAction, default=default)
    elif action.startswith("DeprecatedStore"):
        nargs = 0 if action == "DeprecatedStoreTrueAction" else None
        parser.add_argument(*names, dest=flag["dest"], action=_Deprecated, nargs=nargs, choices=flag.get("choices"), default=default)
    else:
        parser.add_argument(
            *names,
            dest=flag["dest"],
            type=_TYPES[flag.get("type", "str")],
            nargs=flag.get("nargs"),
            choices=flag.get("choices"),
            default=default,
        )


@cache
def parser() -> ServerArgumentParser:
    """The parser of 0.5.23; built once, since 531 options take a moment."""
    built = ServerArgumentParser(prog="sglang", add_help=True)
    seen: set[str] = set()
    for flag in known_flags():
        if seen.isdisjoint(flag["names"]):
            _add(built, flag)
        seen.update(flag["names"])
    return built


def strip_launcher(argv: Sequence[str]) -> list[str]:
    """Drop the launcher's words: `serve`, `sglang serve`, `-m sglang.launch_server`, `python3 -m sglang.launch_server`.

    `serve MODEL …` names the model by position; it becomes `--model-path MODEL …`.
    """
    words = list(argv)
    if words and words[0].rsplit("/", 1)[-1] in {"python", "python3", "sglang"}:
        words[0] = words[0].rsplit("/", 1)[-1]
    for prefix in _LAUNCH_PREFIXES:
        if tuple(words[: len(prefix)]) == prefix:
            words = words[len(prefix) :]
            if prefix[-1] == "serve" and words and not words[0].startswith("-"):
                words[:1] = ["--model-path", words[0]]
            break
    return words


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a server command line (without the program's name) as SGLang 0.5.23 would.

    Raises SystemExit(2), with argparse's message on stderr, for an unknown, removed or ill-typed option, and when no model is named.
    """
    words = strip_launcher(argv)
    arguments = parser().parse_args(words)
    if arguments.model_path is None:
        parser().error("the following arguments are required: --model-path/--model")
    return arguments
