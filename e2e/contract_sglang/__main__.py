"""`python -m e2e.contract_sglang`: parse what mtpilot renders with SGLang 0.5.23's own parser; exit 0 if all of it is taken as meant."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from e2e.contract_sglang import environment, parser
from e2e.contract_sglang.cases import Case, every_case
from e2e.toolchain.environments import InstallError

_PARSE_SECONDS = 120


def run(as_json: Annotated[bool, typer.Option("--json", help="print all that was parsed as JSON")] = False) -> None:
    """Install the wheel where it is missing, parse every sample in both modes, compare with what was meant."""
    console = Console(stderr=True)
    began = time.monotonic()
    try:
        with console.status("sglang 0.5.23: its environment (the first time about 100 MB are downloaded)"):
            interpreter = environment.python()
        installed = time.monotonic()
        cases = every_case()
        answer = _ask(interpreter, cases)
    except InstallError as error:
        console.print(f"[red]error:[/] {error}", highlight=False)
        raise typer.Exit(1) from None
    report = _report(cases, answer)
    report |= {
        "megabytes": environment.megabytes(interpreter),
        "install_seconds": round(installed - began, 1),
        "parse_seconds": round(time.monotonic() - installed, 1),
    }
    if as_json:
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        _print(Console(width=None if sys.stdout.isatty() else 120), report)
    raise typer.Exit(1 if report["problems"] else 0)


def _ask(interpreter: Path, cases: list[Case]) -> dict[str, Any]:
    """The parser's answer; many samples render the same arguments, each list is parsed once."""
    lists = list(dict.fromkeys(tuple(case.args) for case in cases))
    done = subprocess.run(
        [str(interpreter), "-I", str(Path(parser.__file__))],
        input=json.dumps(lists),
        capture_output=True,
        text=True,
        timeout=_PARSE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise InstallError(f"sglang's parser cannot be imported: {done.stderr[-1500:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    results = dict(zip(lists, answer["results"], strict=True))
    return answer | {"results": [results[tuple(case.args)] for case in cases], "lists": len(lists)}


def _report(cases: list[Case], answer: dict[str, Any]) -> dict[str, Any]:
    lines = [_line(case, result) for case, result in zip(cases, answer["results"], strict=True)]
    problems = [f"{line['sample']} in {line['mode']}: {problem}" for line in lines for problem in line["problems"]]
    problems += _differing_options(answer["options"])
    return {
        "sglang": answer["version"],
        "import_seconds": answer["import_seconds"],
        "options": len(answer["options"]),
        "lists": answer["lists"],
        "cases": lines,
        "problems": problems,
    }


def _line(case: Case, result: dict[str, Any]) -> dict[str, Any]:
    values = result.get("values", {})
    wrong = [f"{name} is {values.get(name)!r}, not {value!r}" for name, value in case.meant.items() if values.get(name) != value]
    problems = [result["error"]] if "error" in result else wrong
    parsed = {name: values.get(name) for name in case.meant}
    return {"sample": case.name, "mode": case.mode.value, "args": case.args, "parsed": parsed, "problems": problems}


def _differing_options(options: list[dict[str, Any]]) -> list[str]:
    """Options that differ from the dump that the simulator's parser and `render/known_flags.py` are made of."""
    dump = json.loads(files("sglang_sim").joinpath("data/flags.json").read_text(encoding="utf-8"))["flags"]
    known, found = ({"/".join(option["names"]): _shape(option) for option in found} for found in (dump, options))
    return [
        f"option {name}: {found.get(name)} in the wheel, {known.get(name)} in flags.json"
        for name in known | found
        if known.get(name) != found.get(name)
    ]


def _shape(option: dict[str, Any]) -> tuple[Any, ...]:
    choices = option.get("choices")
    return option["dest"], option["action"], option.get("nargs"), sorted(map(str, choices)) if choices is not None else None


def _print(console: Console, report: dict[str, Any]) -> None:
    """A line for each different argument list, under the name of the first sample that renders it."""
    table = Table("first sample", "mode", "words", "slots", "algorithm", "steps", "", box=None)
    for line in {tuple(line["args"]): line for line in reversed(report["cases"])}.values():
        table.add_row(line["sample"], line["mode"], str(len(line["args"])), *_cells(line["parsed"]), _verdict(line))
    console.print(table)
    for problem in report["problems"]:
        console.print(problem, style="red", highlight=False)
    parts = (
        f"sglang {report['sglang']}: {len(report['cases'])} samples and modes, {report['lists']} different argument lists",
        f"{report['options']} options",
        f"{len(report['problems'])} problems",
        f"environment {report['megabytes']} MB, made in {report['install_seconds']} s",
        f"parsed in {report['parse_seconds']} s",
    )
    console.print("; ".join(parts), highlight=False, soft_wrap=True)


def _cells(parsed: dict[str, Any]) -> tuple[str, str, str]:
    algorithm, steps = parsed["speculative_algorithm"], parsed["speculative_num_steps"]
    adaptive = " adaptive" if parsed["speculative_adaptive"] else ""
    return str(parsed["max_running_requests"]), f"{algorithm}{adaptive}" if algorithm else "-", "-" if steps is None else str(steps)


def _verdict(line: dict[str, Any]) -> str:
    return "[red]not as meant[/]" if line["problems"] else "as meant"


if __name__ == "__main__":
    typer.run(run)
