"""What `mtpilot evidence` prints, as data and in words."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from mtpilot.evidence.compare import Comparison, Ratio, Row
    from mtpilot.evidence.importing.assembling import Imported
    from mtpilot.evidence.verify import Verification

_DIGITS = 4


def verification_document(found: "Verification", files: int, *, anchored: bool) -> dict[str, Any]:
    """anchored: whether the digest of the records was held against one from elsewhere."""
    return {
        "whole": not found.problems,
        "problems": list(found.problems),
        "files": files,
        "batches": found.batches,
        "toldBatches": found.told_batches,
        "requests": found.requests,
        "recordsSha256": found.records_sha256,
        "sumsSha256": found.sums_sha256,
        "anchored": anchored,
    }


def show_verification(name: str, document: Mapping[str, Any]) -> None:
    """A few lines for a person."""
    if document["problems"]:
        typer.echo(f"{name}: not as it was written")
        for problem in document["problems"]:
            typer.echo(f"  {problem}")
        return
    typer.echo(f"{name}: whole")
    typer.echo(
        f"  {document['files']} files, {document['batches']} batches, {document['requests']} requests; every figure and table made again."
    )
    if document["toldBatches"]:
        typer.echo(f"  {document['toldBatches']} batches have figures as another tool told them: those were not made again.")
    typer.echo(f"  records.jsonl {document['recordsSha256']}")
    if document["anchored"]:
        typer.echo("  These are the records that were published.")
    else:
        typer.echo("  Nothing is signed: compare this digest with the one that was published (--records-sha256, --profile).")


def comparison_document(found: "Comparison", names: tuple[str, str]) -> dict[str, Any]:
    """Ratios are the second over the first."""
    return {
        "first": names[0],
        "second": names[1],
        "warnings": list(found.warnings),
        "notes": list(found.notes),
        "onlyFirst": found.only_here,
        "onlySecond": found.only_there,
        "levels": [_row(row) for row in found.rows],
    }


def show_comparison(document: Mapping[str, Any]) -> None:
    """The table, and what to mind."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"{document['second']} over {document['first']}, output tokens/s", markup=False, style="bold", soft_wrap=True)
    for words in dict.fromkeys(row["words"] for row in document["levels"]):
        table = Table(title=words, title_justify="left", box=SIMPLE_HEAD)
        for column in ("load", "first", "second", "ratio", "90 %", "request", "TTFT p99", "says"):
            table.add_column(column, justify="left" if column == "says" else "right")
        for row in document["levels"]:
            if row["words"] == words:
                table.add_row(*_cells(row))
        console.print(table)
    if document["levels"]:
        console.print(
            "request: tokens/s of one request. same: within the repeats, or within 3 %, which two starts of one engine differ by."
        )
    for text in document["warnings"]:
        console.print(f"warning: {text}", markup=False, soft_wrap=True)
    for text in document["notes"]:
        console.print(f"note: {text}", markup=False, soft_wrap=True)
    if document["onlyFirst"] or document["onlySecond"]:
        only = f"{document['onlyFirst']} levels only in the first, {document['onlySecond']} only in the second"
        console.print(f"note: {only}", markup=False, soft_wrap=True)


def imported_document(imported: "Imported", found: "Verification", output: str) -> dict[str, Any]:
    """What was made of another tool's files."""
    return {
        "directory": output,
        "runId": imported.environment.run_id,
        "batches": found.batches,
        "requests": found.requests,
        "modes": sorted({engine.mode for engine in imported.environment.engines}),
        "acceptance": imported.environment.acceptance,
        "recordsSha256": found.records_sha256,
        "warnings": list(imported.environment.warnings),
    }


def show_imported(document: Mapping[str, Any]) -> None:
    """The same in a few lines."""
    typer.echo(
        f"{document['directory']}: {document['batches']} batches with {document['requests']} requests, {', '.join(document['modes'])}"
    )
    typer.echo(f"  records.jsonl {document['recordsSha256']}")
    for warning in document["warnings"]:
        typer.echo(f"  Mind: {warning}.")


def _row(row: "Row") -> dict[str, Any]:
    level = row.here
    same = row.here.mode == row.there.mode
    modes = row.here.mode if same else f"{row.there.mode} over {row.here.mode}"
    return {
        "words": f"{modes}, {level.endpoint} by {level.route}, {level.sampling}, {level.context_bucket} tokens",
        "load": f"{level.concurrency}" if level.rate_per_second is None else f"{level.rate_per_second:g}/s",
        "firstMode": row.here.mode,
        "secondMode": row.there.mode,
        "route": level.route,
        "endpoint": level.endpoint,
        "sampling": level.sampling.value,
        "contextBucket": level.context_bucket,
        "loop": level.loop.value,
        "concurrency": level.concurrency,
        "ratePerSecond": level.rate_per_second,
        "repeats": list(row.repeats),
        "tokensPerSecond": _ratio(row.tokens_per_second),
        "perRequestTokensPerSecond": _ratio(row.per_request_tokens_per_second),
        "ttftP99Seconds": _ratio(row.ttft_p99_seconds),
        "acceptLength": [None if one is None else round(one, _DIGITS) for one in row.accept_length],
        "queueMeasured": row.queue_measured,
    }


def _ratio(found: "Ratio | None") -> dict[str, Any] | None:
    if found is None:
        return None
    numbers = {"first": found.here, "second": found.there, "ratio": found.ratio, "low": found.low, "high": found.high}
    return {name: None if value is None else round(value, _DIGITS) for name, value in numbers.items()} | {"finding": found.finding.value}


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    served = row["tokensPerSecond"]
    return (
        row["load"],
        f"{served['first']:.4g}",
        f"{served['second']:.4g}",
        f"{served['ratio']:.3f}",
        "–" if served["low"] is None else f"{served['low']:.3f} … {served['high']:.3f}",
        _times(row["perRequestTokensPerSecond"]),
        _times(row["ttftP99Seconds"]),
        served["finding"],
    )


def _times(ratio: Mapping[str, Any] | None) -> str:
    return "–" if ratio is None else f"{ratio['ratio']:.3f}"
