"""A comparison as a table and as plain data."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from .catalogue import OPTIMUM
from .compare import Comparison
from .driver import Run
from .score import Score


def table(found: Comparison) -> Table:
    """One row for a policy, the cheapest first."""
    site, load = found.site, found.load
    made = Table(
        title=f"{found.calibration.profile}, {site.replicas} replicas, flip {site.flip_minutes} min, {load.name}, {load.minutes} min",
        caption=_caption(found),
        title_justify="left",
        padding=0,
        caption_justify="left",
    )
    made.add_column("policy", no_wrap=True)  # numbers never break and never shrink: with one space beside each, all fit 80 columns
    heads = (
        "of bound" if load.closed else "/ optimum",
        "Mtokens" if load.closed else "req-min",
        "tok/s",
        "flips",
        "mean s",
        "p99 s",
    )
    for head in (*heads, "overload", "batch"):
        made.add_column(head, justify="right", no_wrap=True)
    for score in sorted(found.scores, key=lambda score: -score.tokens if load.closed else score.cost or 0.0):
        ratio = found.ratio(score)
        made.add_row(
            score.policy,
            "–" if ratio is None else f"{ratio:.3f}",
            f"{score.tokens / 1e6:,.1f}" if score.cost is None else f"{score.cost:,.0f}",
            f"{score.tokens_per_second:,.0f}",
            str(score.flips),
            _seconds(score.mean_latency_seconds),
            _seconds(score.p99_latency_seconds),
            str(score.overload_minutes),
            f"{100 * score.batch_share:.0f} %",
            style="bold" if score.policy == "predictive" else "dim" if score.policy == OPTIMUM else None,
        )
    return made


def _caption(found: Comparison) -> str:
    rest = "overload: minutes that end with requests waiting; batch: share of the replica-minutes"
    if found.load.closed:
        return f"of bound: tokens, over those of the best mix at every moment with flips that take no time; {rest}"
    return f"/ optimum: requests in the system summed over time (req-min), over the least that was found with the future known; {rest}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"


def document(found: Comparison, *, series: bool = False) -> dict[str, Any]:
    """Plain data for JSON. series: with the minute-by-minute arrays of every run."""
    site, load = found.site, found.load
    runs = {run.policy: run for run in found.runs}
    return {
        "profile": found.calibration.profile,
        "contextTokens": found.calibration.context_tokens,
        "verdict": found.calibration.verdict,
        "load": {
            "name": load.name,
            "kind": "Closed" if load.closed else "Open",
            "minutes": load.minutes,
            "meanOutputTokens": site.output_tokens,
        },
        "replicas": site.replicas,
        "flipMinutes": site.flip_minutes,
        "reference": {"tokens" if load.closed else "requestMinutes": found.reference},
        "policies": {score.policy: _policy(found, score, runs[score.policy], series=series) for score in found.scores},
    }


def _policy(found: Comparison, score: Score, run: Run, *, series: bool) -> dict[str, Any]:
    made: dict[str, Any] = {
        "ratio": found.ratio(score),
        "requestMinutes": score.cost,
        "tokens": score.tokens,
        "tokensPerSecond": score.tokens_per_second,
        "flips": score.flips,
        "meanLatencySeconds": score.mean_latency_seconds,
        "p99LatencySeconds": score.p99_latency_seconds,
        "overloadMinutes": score.overload_minutes,
        "batchShare": score.batch_share,
        "moves": [{"minute": move.minute, "to": move.to, "why": move.why} for move in run.moves],
    }
    if series:
        made["series"] = {
            "batchReplicas": run.batch.tolist(),
            "away": run.away.astype(int).tolist(),
            "servedTokensPerSecond": _rounded(run.served.tolist()),
            "running": _rounded(run.running.tolist()),
            "queued": _rounded(run.queued.tolist()),
        }
    return made


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 3) for value in values]
