"""The oMLX report's table on the simulator: one request alone, four together by the rule, four in plain batching, four on the mixed route.

The report's engine changes the route of each request; here a route is a replica: an mtp replica whose curve has the mixed route's rate
at four requests, and a batch replica. Throughput as the report has it: all output tokens over the wall time less the longest TTFT.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from dataclasses import dataclass
from typing import Any

from e2e.bench_gateway.contenders import Place
from e2e.bench_gateway.fleet import BenchError, Fleet
from e2e.bench_gateway.mtpilot_gateway import MtpilotGateway
from e2e.bench_gateway.parameters import MODEL
from e2e.load.answer import judge, marker_text, read_answer
from e2e.load.exchange import PATH, exchange, parse_target
from e2e.load.result import Outcome
from mtpilot.render.haproxy import MODE_HEADER

INPUT_WORDS, OUTPUT_TOKENS, TOGETHER = 1024, 100, 4
CONTENTION_LIMIT = 1
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Output tokens/s of the report: mtp and plain batching alone, plain batching and the mixed route with four, and its sampling."""

    mtp_alone: float
    plain_alone: float
    plain_four: float
    mixed_four: float
    sampling: dict[str, float]

    def curve(self) -> dict[str, Any]:
        """As a curve of the simulator."""
        mtp = {"points": [[1, self.mtp_alone], [TOGETHER, self.mixed_four]], "slots": TOGETHER, "accept_length": 1.5}
        batch = {"points": [[1, self.plain_alone], [TOGETHER, self.plain_four]], "slots": TOGETHER}
        return {"name": "omlx-qwen3.8-27b", "modes": {"mtp": mtp, "batch": batch}}


TABLES = {
    "greedy": Table(mtp_alone=45.69, plain_alone=35.98, plain_four=107.40, mixed_four=69.34, sampling={"temperature": 0}),
    "sampled": Table(
        mtp_alone=42.0, plain_alone=35.51, plain_four=102.93, mixed_four=64.68, sampling={"temperature": 0.7, "top_p": 0.95, "top_k": 20}
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request's end: tokens, TTFT and wall seconds since the group was sent, and the mode that the gateway named."""

    tokens: int
    ttft_seconds: float
    ended_seconds: float
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Output tokens/s of each case, and the modes that the requests of `alone` and `four` ran in."""

    alone: float
    four: float
    plain_four: float
    mixed_four: float
    alone_modes: tuple[str, ...]
    four_modes: tuple[str, ...]

    def figures(self) -> dict[str, float]:
        return {name: round(getattr(self, name), 2) for name in ("alone", "four", "plain_four", "mixed_four")}


def throughput(group: list[Sent]) -> float:
    """Tokens over the wall time less the longest TTFT, in tokens/s."""
    return sum(one.tokens for one in group) / (max(one.ended_seconds for one in group) - max(one.ttft_seconds for one in group))


async def measure(table: Table, place: Place, addresses: list[str], rounds: int) -> Matrix:
    """Run the four cases `rounds` times and give the medians."""
    place.folder.mkdir(parents=True, exist_ok=True)
    curve = place.folder / "curve.json"
    curve.write_text(json.dumps(table.curve()))
    fleet = Fleet(folder=place.folder, session=place.session, environment={"SGLANG_SIM_CURVE": str(curve)})
    gateway = MtpilotGateway(place=place, limit=CONTENTION_LIMIT)
    try:
        await fleet.start(("mtp", "batch"), addresses, slots={"mtp": TOGETHER, "batch": TOGETHER})
        await gateway.start(fleet.replicas)
        mtp, batch = (replica.url for replica in fleet.replicas)
        cases = {
            "alone": (gateway.urls[0], 1),
            "four": (gateway.urls[0], TOGETHER),
            "plain_four": (batch, TOGETHER),
            "mixed_four": (mtp, TOGETHER),
        }
        groups: dict[str, list[list[Sent]]] = {name: [] for name in cases}
        for _ in range(rounds):
            for name, (url, count) in cases.items():
                groups[name].append(await _together(url, count, table.sampling))
    finally:
        await gateway.stop()
        await fleet.stop()
    return Matrix(
        **{name: statistics.median(throughput(group) for group in groups[name]) for name in cases},
        alone_modes=tuple(sorted(one.mode for group in groups["alone"] for one in group)),
        four_modes=tuple(sorted(one.mode for group in groups["four"] for one in group)),
    )


async def _together(url: str, count: int, sampling: dict[str, float]) -> list[Sent]:
    began = time.time()
    return list(await asyncio.gather(*(_send(url, sampling, began) for _ in range(count))))


async def _send(url: str, sampling: dict[str, float], began: float) -> Sent:
    target = parse_target(url)
    marker = f"omlx-{random.getrandbits(40):010x}"
    prompt = " ".join([marker_text(marker), *["river"] * (INPUT_WORDS - 1)])
    body = json.dumps(
        {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "max_tokens": OUTPUT_TOKENS, "ignore_eos": True, "stream": True}
        | {"stream_options": {"include_usage": True}, **sampling}
    ).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {target.host}:{target.port}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    exchanged = await exchange(target, head.encode() + body, timeout_seconds=_TIMEOUT_SECONDS)
    ended = time.time()
    answer = read_answer(bytes(exchanged.raw))
    outcome, error = judge(answer, marker=marker, output_tokens=OUTPUT_TOKENS)
    if outcome is not Outcome.COMPLETED or exchanged.first_token_at is None:
        raise BenchError(f"a request of the oMLX table: {exchanged.error or error}")
    return Sent(
        tokens=OUTPUT_TOKENS,
        ttft_seconds=exchanged.first_token_at - began,
        ended_seconds=ended - began,
        mode=answer.headers.get(MODE_HEADER, ""),
    )
