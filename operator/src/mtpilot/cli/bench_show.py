"""What `mtpilot bench` prints at the end, as data and in words."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtpilot.bench.session import Finished


def document(found: "Finished", out: str) -> dict[str, Any]:
    """The levels of the package's own tables, and what to mind."""
    from mtpilot.evidence.tables import tables_of

    tables = tables_of(found.records)
    environment = found.environment
    return {
        "package": out,
        "runId": environment.run_id,
        "acceptance": environment.acceptance,
        "batches": environment.batches,
        "requests": environment.requests,
        "failed": found.failed,
        "leaked": found.leaked,
        "warnings": list(environment.warnings),
        "engines": [
            {"mode": engine.mode, "route": engine.route, "engine": engine.engine, "model": engine.model, "slots": engine.slots}
            for engine in environment.engines
        ],
        "levels": tables["levels"],
    }


def show(result: Mapping[str, Any]) -> None:
    """One table for each route, endpoint, sampling and context; then the warnings, and what to do next."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in result["levels"]:
        groups.setdefault(f"{row['endpoint']} by {row['route']}, {row['sampling']}, {row['context_bucket']} tokens", []).append(row)
    for title, rows in groups.items():
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
        for column in ("at once", "mode", "tok/s", "±", "each", "TTFT p99", "running", "waiting", "accepted"):
            table.add_column(column, justify="left" if column == "mode" else "right")
        for row in rows:
            table.add_row(*_cells(row))
        console.print(table)
    for warning in result["warnings"]:
        console.print(f"! {warning}", markup=False, soft_wrap=True)
    console.print(
        f"{result['package']}: {result['batches']} batches, {result['requests']} requests, {result['failed']} failed, "
        f"{result['leaked']} leaked; acceptance {result['acceptance']}",
        markup=False,
        soft_wrap=True,
    )
    console.print(
        f"next: mtpilot evidence verify {result['package']}; mtpilot profile fit {result['package']}", markup=False, soft_wrap=True
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    rate = row["tokens_per_second"] or {}
    return [
        str(row["concurrency"]) if row["rate_per_second"] is None else f"{row['rate_per_second']:g}/s",
        row["mode"],
        _number(rate.get("mean"), 1),
        _number(rate.get("spread"), 1),
        _number((row["per_request_tokens_per_second"] or {}).get("mean"), 1),
        _number((row["ttft_p99_seconds"] or {}).get("mean"), 3),
        _number(row["running_mean"], 1),
        _number(row["queue_mean"], 1),
        _number((row["accept_length"] or {}).get("mean"), 2),
    ]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
