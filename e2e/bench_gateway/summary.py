"""The bench's summary, and the goals that decide its exit code.

Goals read only the two documents that are written to disk: whoever doubts the exit code can apply them to the files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from e2e.bench_gateway.omlx import TABLES
from e2e.bench_gateway.run import DIRECT, HAPROXY, MTPILOT, ROWS, Outcome, Row
from e2e.load.result import percentile

FIGURES = (
    "output_tokens_per_second",
    "mean_latency_seconds",
    "p99_latency_seconds",
    "ttft_p50_seconds",
    "flip_errors",
    "added_p50_ms",
    "added_p99_ms",
    "tiny_requests_per_second",
)
CASES = ("alone", "four", "plain_four", "mixed_four")
LATENCY_GAIN = 0.15
ADDED_P99_MS = 1.0
RATE_SHARE = 0.9
PLAIN_SHARE = 0.97
LAG_SECONDS = 0.1


def _rounded(value: float, digits: int) -> float | None:
    return round(value, digits) if math.isfinite(value) else None


def _row(row: Row) -> dict[str, Any]:
    mixed, tiny = row.mixed, row.tiny
    ttfts = [record.ttft_seconds for record in mixed.records if record.ttft_seconds is not None]
    return {
        "output_tokens_per_second": _rounded(mixed.output_tokens_per_second, 1),
        "mean_latency_seconds": _rounded(mixed.mean_latency_seconds, 4),
        "p99_latency_seconds": _rounded(mixed.p99_latency_seconds, 4),
        "ttft_p50_seconds": _rounded(percentile(ttfts, 0.5), 4),
        "flip_errors": row.flipped.sent - row.flipped.completed,
        "added_p50_ms": _rounded(tiny.added_p50_seconds * 1000, 4),
        "added_p99_ms": _rounded(tiny.added_p99_seconds * 1000, 4),
        "tiny_requests_per_second": _rounded(tiny.requests_per_second, 0),
    }


def summarise(outcome: Outcome) -> dict[str, Any]:
    """The document of `summary.json`. Throughput of the oMLX cases in output tokens/s."""
    return {
        "rows": {name: _row(row) for name, row in outcome.rows.items()},
        "omlx": {name: matrix.figures() for name, matrix in outcome.matrices.items()},
    }


def details(outcome: Outcome) -> dict[str, Any]:
    """The document of `details.json`: how the figures came about."""
    rows = {}
    for name, row in outcome.rows.items():
        rows[name] = {
            "removal": row.removal,
            "mixed": {"sent": row.mixed.sent, "completed": row.mixed.completed, "mean_lag_seconds": round(row.mixed.mean_lag_seconds, 4)},
            "flips": {"sent": row.flipped.sent, "completed": row.flipped.completed, "seconds": round(row.flip_seconds, 2)},
            "tiny_failed": row.tiny.failed,
            "problems": [*row.mixed.problems(), *row.flipped.problems()],
        }
    modes = {name: {"alone": list(matrix.alone_modes), "four": list(matrix.four_modes)} for name, matrix in outcome.matrices.items()}
    table = {
        name: {field: getattr(one, field) for field in ("mtp_alone", "plain_alone", "plain_four", "mixed_four")}
        for name, one in TABLES.items()
    }
    return {"parameters": outcome.parameters.document(), "rows": rows, "omlx_modes": modes, "omlx_report": table}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def missing(summary: Mapping[str, Any], expected: tuple[str, ...] = ROWS) -> list[str]:
    """Figures that are not there, one plain sentence for each row or case."""
    found = []
    for name in expected:
        absent = [figure for figure in FIGURES if not _is_number(summary["rows"].get(name, {}).get(figure))]
        if absent:
            found.append(f"{name}: no {', '.join(absent)}")
    for name in TABLES:
        absent = [case for case in CASES if not _is_number(summary["omlx"].get(name, {}).get(case))]
        if absent:
            found.append(f"oMLX {name}: no {', '.join(absent)}")
    return found


def failed_goals(summary: Mapping[str, Any], detail: Mapping[str, Any]) -> list[str]:
    """Goals that were missed, with the figure and the goal; empty: all were met. Needs a summary in which nothing is missing."""
    return [*_rule_goals(summary["omlx"], detail["omlx_modes"]), *_row_goals(summary["rows"]), *_answered(detail["rows"])]


def _rule_goals(cases: Mapping[str, Any], modes: Mapping[str, Any]) -> list[str]:
    failures = []
    for name, figures in cases.items():
        if set(modes[name]["alone"]) != {"mtp"}:
            failures.append(f"oMLX {name}: a request that was alone ran in {', '.join(modes[name]['alone'])}, not on mtp")
        share = figures["four"] / figures["plain_four"]
        if share < PLAIN_SHARE:
            failures.append(f"oMLX {name}: four together reach {share:.3f} of plain batching; the goal is {PLAIN_SHARE}")
    return failures


def _row_goals(rows: Mapping[str, Any]) -> list[str]:
    ours, plain = rows[MTPILOT], rows[HAPROXY]
    others = {name: row["mean_latency_seconds"] for name, row in rows.items() if name not in {MTPILOT, DIRECT}}
    best = min(others, key=lambda name: float(others[name]))
    gain = 1 - ours["mean_latency_seconds"] / others[best]
    added = ours["added_p99_ms"] - plain["added_p99_ms"]
    share = ours["tiny_requests_per_second"] / plain["tiny_requests_per_second"]
    checks = [
        (gain >= LATENCY_GAIN, f"mean latency at mixed load is {gain:.1%} below the best other, {best}; the goal is {LATENCY_GAIN:.0%}"),
        (added <= ADDED_P99_MS, f"p99 latency is {added:.2f} ms above plain HAProxy's; the goal is at most {ADDED_P99_MS:g} ms"),
        (share >= RATE_SHARE, f"{share:.2f} of plain HAProxy's requests/s per core with tiny answers; the goal is {RATE_SHARE:g}"),
        (ours["flip_errors"] == 0, f"{ours['flip_errors']} requests failed in the flips; the goal is none"),
    ]
    return [message for met, message in checks if not met]


def _answered(rows: Mapping[str, Any]) -> list[str]:
    mixed, failed = rows[MTPILOT]["mixed"], rows[MTPILOT]["tiny_failed"]
    lost = mixed["sent"] - mixed["completed"]
    failures = [f"{lost} of {mixed['sent']} requests of the mixed load were not answered in full through mtpilot"] if lost else []
    return [*failures, f"{failed} tiny requests failed through mtpilot"] if failed else failures


def warnings(detail: Mapping[str, Any]) -> list[str]:
    """What makes the figures less than they look."""
    found = []
    for name, row in detail["rows"].items():
        if row["mixed"]["mean_lag_seconds"] > LAG_SECONDS:
            found.append(f"{name}: requests were sent {row['mixed']['mean_lag_seconds']:.2f} s late on average: this machine was too busy")
        lost = row["mixed"]["sent"] - row["mixed"]["completed"]
        if lost and name != MTPILOT:
            found.append(f"{name}: {lost} of {row['mixed']['sent']} requests of the mixed load failed; its latencies are of the others")
    return found
