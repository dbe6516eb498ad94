"""A batch's figures, from its requests alone.

A verifier makes them again on another machine: sums are exact, for two releases of Python add floats differently, and ranks are whole
numbers.
"""

import math
from collections.abc import Sequence

from .records import Figures, RequestRecord, rounded


def figures_of(requests: Sequence[RequestRecord]) -> Figures:
    """The figures of a batch's requests.

    Raises:
        ValueError: there are none.
    """
    if not requests:
        raise ValueError("a batch needs at least one request")
    whole = [request for request in requests if request.whole]
    start = min(request.start_seconds for request in requests)
    wall = max(request.start_seconds + request.latency_seconds for request in requests) - start
    tokens = sum(request.completion_tokens for request in whole)
    ttfts = [request.ttft_seconds for request in whole if request.ttft_seconds is not None]
    rates = [rate for request in whole if (rate := request.decode_tokens_per_second) is not None]
    decoding = wall - max(ttfts) if ttfts else 0.0
    latencies = [request.latency_seconds for request in whole]
    return Figures(
        requests=len(requests),
        whole=len(whole),
        failed=len(requests) - len(whole),
        markers_checked=sum(request.marker_ok is not None for request in whole),
        markers_missing=sum(request.marker_ok is False for request in whole),
        leaked=sum(bool(request.foreign_markers) for request in requests),
        completion_tokens=tokens,
        prompt_tokens=sum(request.prompt_tokens or 0 for request in whole),
        start_seconds=rounded(start),
        wall_seconds=rounded(wall),
        longest_ttft_seconds=rounded(max(ttfts)) if ttfts else None,
        tokens_per_second=rounded(tokens / decoding) if decoding > 0 else None,
        wall_tokens_per_second=rounded(tokens / wall) if whole and wall > 0 else None,
        per_request_tokens_per_second=rounded(math.fsum(rates) / len(rates)) if rates else None,
        ttft_p50_seconds=percentile(ttfts, 50),
        ttft_p99_seconds=percentile(ttfts, 99),
        inter_token_p50_seconds=percentile([1 / rate for rate in rates], 50),
        inter_token_p99_seconds=percentile([1 / rate for rate in rates], 99),
        latency_p50_seconds=percentile(latencies, 50),
        latency_p99_seconds=percentile(latencies, 99),
        lag_p99_seconds=percentile([lag for request in requests if (lag := request.lag_seconds) is not None], 99),
    )


def percentile(values: Sequence[float], percent: int) -> float | None:
    """The nearest-rank percentile (`percent` in 1…100) of values in any order; None where there are none."""
    if not values:
        return None
    return rounded(sorted(values)[-(-percent * len(values) // 100) - 1])
