"""Run in sglang's own environment: argument lists in, what the real parser made of them out, both as JSON.

The parser's module imports torch and triton (1.8 GB and CUDA's libraries) and asks them for nothing but which
accelerator is there. They are stood in for by modules that answer every question with "no"; everything else is the wheel's
own code. That nothing of the parser depends on them is checked: its options equal the dump that was made with the real ones.
"""

from __future__ import annotations

import abc
import argparse
import contextlib
import importlib.abc
import importlib.machinery
import io
import json
import sys
import time
import types
from typing import Any

_STOOD_IN = ("torch", "triton")
_PLAIN = (str, int, float, dict, type(None))
_ABSENT = frozenset({"npu", "hpu", "musa"})  # SGLang takes the mere presence of these attributes for the device


def _is_absent(name: str) -> bool:
    return name in _ABSENT or (name.startswith("__") and name.endswith("__"))


class _NothingType(abc.ABCMeta):
    """The type of what a stand-in holds: a class to inherit from, a decorator that changes nothing, a number 0, false."""

    def __getattr__(cls, name: str) -> Any:
        if _is_absent(name):
            raise AttributeError(name)
        return _nothing(name)

    def __getitem__(cls, _: Any) -> Any:
        return cls

    def __or__(cls, _: Any) -> Any:
        return cls

    def __ror__(cls, _: Any) -> Any:
        return cls

    def __int__(cls) -> int:
        return 0

    def __bool__(cls) -> bool:
        return False


def _nothing(name: str) -> Any:
    body = {
        "__init__": lambda self, *args, **kwargs: None,
        "__call__": lambda self, function=None, *args, **kwargs: function,
        "__bool__": lambda self: False,
    }
    return _NothingType(name, (), body)


class _StandIn(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012 - a package's attribute
    __version__ = "2.14.1"  # what the wheel asks for

    def __getattr__(self, name: str) -> Any:
        if _is_absent(name):
            raise AttributeError(name)
        return _nothing(name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        stood_in = fullname.split(".", 1)[0] in _STOOD_IN
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if stood_in else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """A stand-in has no code."""


def _parse(prepare: Any, args: list[str], fields: list[str]) -> dict[str, Any]:
    """The plain values of the named fields, or the message with which the parser ended the process."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed = prepare(args)
    except SystemExit as end:
        lines = said.getvalue().strip().splitlines() or ["no message"]
        return {"error": f"exit {end.code}: {lines[-1]}"}
    values = {name: getattr(parsed, name, None) for name in fields}
    return {"values": {name: value for name, value in values.items() if isinstance(value, _PLAIN)}}


def _options(server_args: Any) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser()
    server_args.add_cli_args(parser)
    return [
        {
            "names": action.option_strings,
            "dest": action.dest,
            "action": type(action).__name__,
            "nargs": action.nargs,
            "choices": [str(choice) for choice in action.choices] if action.choices is not None else None,
        }
        for action in parser._actions
        if action.dest != "help"
    ]


def main() -> None:
    """Read a JSON list of argument lists; write `{version, import_seconds, options, results}`."""
    lists = json.load(sys.stdin)
    sys.meta_path.insert(0, _Finder())
    began = time.monotonic()
    with contextlib.redirect_stdout(sys.stderr):
        from importlib.metadata import version

        from sglang.srt.server_args import ServerArgs, prepare_server_args  # type: ignore[import-not-found]

        options = _options(ServerArgs)
        fields = sorted({option["dest"] for option in options})
        answer = {
            "version": version("sglang"),
            "import_seconds": round(time.monotonic() - began, 2),
            "options": options,
            "results": [_parse(prepare_server_args, args, fields) for args in lists],
        }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
