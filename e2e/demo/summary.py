"""The demo's summary, and the checks that decide its exit code.

The checks read only the document that is written to disk: whoever doubts the exit code can apply them to `summary.json`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.demo.parameters import Parameters
from e2e.demo.shaping import Compression
from e2e.demo.timeline import Timeline
from e2e.load.result import LoadResult
from e2e.load.result import Outcome as Verdict

AUTO, ALWAYS_MTP, ALWAYS_BATCH = "auto", "always_mtp", "always_batch"
LEAST_REQUESTS = 1000
STEP_TIME_TOLERANCE = 0.05
LAG_TOLERANCE_SECONDS = 0.1
QUIET_SHARE = 0.9  # of the mtp capacity: below it the load counts as quiet
READING = (
    "A flip takes as long here as half of the busy time, because the start and end of an engine cannot be compressed as the load is: so "
    "the fixed modes look better. In production it is minutes against hours: docs/decision.md says what flips are worth there."
)
"""How to read the comparison of the policies."""
_FIGURES = ("output_tokens_per_second", "mean_latency_seconds", "p99_latency_seconds")


@dataclass(slots=True, kw_only=True)
class Outcome:
    """All that a run of the demo brought."""

    parameters: Parameters
    timeline: Timeline
    results: Mapping[str, LoadResult]
    step_time: Mapping[str, float] = field(default_factory=dict)
    """Per policy: busy wall seconds of the engines over the seconds that their curves give for the same steps."""
    timings: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)


def _rounded(value: float, *, digits: int = 4) -> float | None:
    return round(value, digits) if math.isfinite(value) else None


def _mean_latency(outcome: Outcome, name: str, *, least_share: float, most_share: float) -> float:
    """Mean latency of the completed requests that were due while the load's share was within bounds; NaN without any."""
    window = outcome.timeline.window(name)
    share = Compression(points=outcome.parameters.shares)
    start = window.start if window else 0.0
    done = [record for record in outcome.results[name].records if record.outcome is Verdict.COMPLETED]
    values = [record.latency_seconds for record in done if least_share <= share.at(record.due_at - start) < most_share]
    return sum(values) / len(values) if values else math.nan


def _policy(outcome: Outcome, name: str) -> dict[str, Any]:
    result = outcome.results[name]
    window = outcome.timeline.window(name)
    up = len(outcome.timeline.flips_in(window, to_mode="batch")) if window else 0
    down = len(outcome.timeline.flips_in(window, to_mode="mtp")) if window else 0
    return {
        "requests": {"sent": result.sent, "completed": result.completed, "failed": result.failed, "incomplete": result.incomplete},
        "marker_leaks": result.marker_leaks,
        "output_tokens_per_second": _rounded(result.output_tokens_per_second, digits=1),
        "mean_latency_seconds": _rounded(result.mean_latency_seconds),
        "p50_latency_seconds": _rounded(result.p50_latency_seconds),
        "p99_latency_seconds": _rounded(result.p99_latency_seconds),
        "quiet_mean_latency_seconds": _rounded(_mean_latency(outcome, name, least_share=0.0, most_share=QUIET_SHARE)),
        "busy_mean_latency_seconds": _rounded(_mean_latency(outcome, name, least_share=QUIET_SHARE, most_share=math.inf)),
        "mean_ttft_seconds": _rounded(result.mean_ttft_seconds),
        "peak_in_flight": result.peak_in_flight,
        "wall_seconds": _rounded(result.wall_seconds),
        "flips": {"mtp_to_batch": up, "batch_to_mtp": down},
        "step_time_ratio": _rounded(outcome.step_time.get(name, math.nan)),
        "generator": {
            "cpu_seconds": _rounded(result.cpu_seconds),
            "mean_lag_seconds": _rounded(result.mean_lag_seconds),
            "worst_lag_seconds": _rounded(result.worst_lag_seconds),
        },
    }


def summarise(outcome: Outcome) -> dict[str, Any]:
    """The document of `summary.json`; times in seconds, rates per second of wall time."""
    results = outcome.results.values()
    policies = {name: _policy(outcome, name) for name in outcome.results}
    flips = policies.get(AUTO, {}).get("flips", {"mtp_to_batch": 0, "batch_to_mtp": 0})
    return {
        "requests": {
            "sent": sum(result.sent for result in results),
            "completed": sum(result.completed for result in results),
            "failed": sum(result.failed for result in results),
            "incomplete": sum(result.incomplete for result in results),
        },
        "marker_leaks": sum(result.marker_leaks for result in results),
        "flips": flips,
        "gpus": {
            "requested_max": max((sample.gpus for sample in outcome.timeline.fleet), default=0),
            "budget": outcome.parameters.gpu_budget,
        },
        "policies": policies,
        "problems": [problem for result in results for problem in result.problems()],
        "parameters": outcome.parameters.document(),
        "timings_seconds": {name: round(value, 2) for name, value in outcome.timings.items()},
        "cpu_seconds": {name: round(value, 2) for name, value in outcome.cpu_seconds.items()},
        "versions": outcome.versions,
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def failed_checks(summary: Mapping[str, Any], *, baselines: bool) -> list[str]:
    """What the demo promises and did not keep, one plain sentence each; empty: it succeeded."""
    requests, flips, gpus = summary["requests"], summary["flips"], summary["gpus"]
    expected = (AUTO, ALWAYS_MTP, ALWAYS_BATCH) if baselines else (AUTO,)
    checks = [
        (requests["sent"] >= LEAST_REQUESTS, f"{requests['sent']} requests were sent, at least {LEAST_REQUESTS} were meant to be"),
        (requests["failed"] == 0, f"{requests['failed']} requests failed"),
        (requests["incomplete"] == 0, f"{requests['incomplete']} answers were not complete"),
        (summary["marker_leaks"] == 0, f"{summary['marker_leaks']} answers carried another request's marker"),
        (requests["completed"] == requests["sent"], f"{requests['completed']} of {requests['sent']} requests were answered in full"),
        (flips["mtp_to_batch"] >= 1, "no replica was flipped from mtp to batch"),
        (flips["batch_to_mtp"] >= 1, "no replica was flipped back from batch to mtp"),
        (0 < gpus["requested_max"] <= gpus["budget"], f"pods held {gpus['requested_max']} GPUs at once; the budget is {gpus['budget']}"),
    ]
    for name in expected:
        figures = summary["policies"].get(name)
        missing = _FIGURES if figures is None else [figure for figure in _FIGURES if not _is_number(figures.get(figure))]
        checks.append((not missing, f"no {', '.join(missing)} for policy {name}"))
    return [message for passed, message in checks if not passed]


def warnings(summary: Mapping[str, Any]) -> list[str]:
    """What makes the figures less than they look, without making the demo fail."""
    found = []
    for name, figures in summary["policies"].items():
        ratio = figures["step_time_ratio"]
        lag = figures["generator"]["mean_lag_seconds"] or 0.0
        if lag > LAG_TOLERANCE_SECONDS:
            found.append(
                f"under {name} requests were sent {lag:.2f} s late on average: this machine was too busy, and latencies include that"
            )
        if ratio is not None and abs(ratio - 1) > STEP_TIME_TOLERANCE:
            found.append(f"under {name} the simulator's steps took {ratio:.3f} times what its curve says: this machine was too busy")
    return found
