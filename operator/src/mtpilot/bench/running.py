"""One batch after another against the engines, each watched while it lasts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

import aiohttp

from mtpilot.evidence.records import BatchRecord, Loop, RequestRecord, Sampling

from .acceptance import Counted, Counters, counted
from .answers import PATHS
from .client import Clock, exchange
from .composing import Composer
from .describing import lifetime_accept_length
from .engine import BenchError, EngineClient
from .planning import Batch, Target, arrivals
from .recording import Exchanged, Look, Numbered, Sent, Told, batch_record, request_record

_LEAST_WARM_UP_TOKENS = 48
_WARM_UP_SHARE = 4
WARM_UP = -1  # the repeat of batches that are sent, looked at by nobody, and dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A target with what is needed to send to it. incremental: whether its /generate streams only what is new."""

    target: Target
    client: EngineClient
    model: str
    incremental: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A batch that was run. others: somebody else's requests moved the engine's counters meanwhile."""

    record: BatchRecord
    requests: tuple[RequestRecord, ...]
    texts: tuple[str, ...]
    others: bool


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs batches. given_out: all markers of the run."""

    composer: Composer
    session: aiohttp.ClientSession
    headers: Mapping[str, str]
    clock: Clock
    given_out: frozenset[str]
    timeout_seconds: float = 600.0
    look_seconds: float = 0.5
    keep_text: bool = False

    async def weigh(self, measured: Measured, batch: Batch) -> dict[str, float]:
        """Tokens per character of each domain, by a short request in each.

        Raises:
            BenchError: the engine does not answer one of them.
        """
        domains = self.composer.prompts.domains
        shape = replace(batch, loop=Loop.CLOSED, concurrency=len(domains), repeat=WARM_UP, rate_per_second=None)
        sent = self.composer.requests(shape, measured.model, output_tokens=_LEAST_WARM_UP_TOKENS)[: len(domains)]
        told = await self._dropped(measured, shape, sent)
        weights = {}
        for request, one in zip(sent, told, strict=True):
            if one.record.error or not one.record.prompt_tokens:
                raise BenchError(f"{measured.target.url} does not answer as needed: {one.record.error or 'no count of prompt tokens'}")
            weights[request.domain] = round(one.record.prompt_tokens / len(request.prompt), 4)
        return weights

    async def warm_up(self, measured: Measured, batch: Batch) -> None:
        """A short batch at the level of `batch`, dropped: the first of a size may compile or allocate."""
        shape = replace(batch, repeat=WARM_UP, sampling=Sampling.GREEDY)
        tokens = max(_LEAST_WARM_UP_TOKENS, self.composer.settings.output_tokens // _WARM_UP_SHARE)
        await self._dropped(measured, shape, self.composer.requests(shape, measured.model, output_tokens=tokens))

    async def _dropped(self, measured: Measured, batch: Batch, sent: Sequence[Sent]) -> list[Told]:
        came = await asyncio.gather(*(self._one(measured, batch, one, self.clock()) for one in sent))
        of = Numbered(run_id=self.composer.run_id, number=0, batch=batch)
        return [self._told(of, measured, one, answer) for one, answer in zip(sent, came, strict=True)]

    async def run(self, number: int, measured: Measured, batch: Batch) -> Outcome:
        """Run a batch as the run's `number`.

        Raises:
            BenchError: not one of its requests was answered.
        """
        sent = self.composer.requests(batch, measured.model)
        before = await measured.client.counters()
        flushed = before is None and batch.target.mode == "mtp" and await measured.client.flush()
        looks: list[Look] = []
        async with self._watching(measured, looks):
            came = await self._all(measured, batch, sent)
        of = Numbered(run_id=self.composer.run_id, number=number, batch=batch)
        told = [self._told(of, measured, one, answer) for one, answer in zip(sent, came, strict=True)]
        records = tuple(one.record for one in told)
        if not any(record.whole for record in records):
            raise BenchError(f"{measured.target.url}: {batch.load}: no request was answered; the first: {records[0].error}")
        count = await self._counted(measured, before, records)
        lifetime = lifetime_accept_length(await measured.client.server_info() or {}) if flushed else None
        record = batch_record(of, records, looks, count, flushed_accept_length=lifetime)
        return Outcome(record=record, requests=records, texts=tuple(one.text for one in told), others=count is not None and count.others)

    async def _all(self, measured: Measured, batch: Batch, sent: Sequence[Sent]) -> list[Exchanged]:
        """By the requests' index: in a closed loop client c sends c, c + C, c + 2 C, …"""
        starts = arrivals(self.composer.settings, batch)
        began = self.clock()
        if batch.loop is Loop.OPEN:
            return list(await asyncio.gather(*(self._one(measured, batch, one, began + at) for one, at in zip(sent, starts, strict=True))))
        came: dict[int, Exchanged] = {}

        async def client(mine: Sequence[Sent]) -> None:
            due = began
            for one in mine:
                came[one.index] = await self._one(measured, batch, one, due)
                due = came[one.index].ended_seconds

        await asyncio.gather(*(client(sent[number :: len(starts)]) for number in range(len(starts))))
        return [came[one.index] for one in sent]

    async def _one(self, measured: Measured, batch: Batch, sent: Sent, due_seconds: float) -> Exchanged:
        if (wait := due_seconds - self.clock()) > 0:
            await asyncio.sleep(wait)
        return await exchange(
            self.session,
            measured.target.url + PATHS[batch.endpoint],
            sent.body,
            self.headers,
            clock=self.clock,
            due_seconds=due_seconds,
            timeout_seconds=self.timeout_seconds,
        )

    def _told(self, of: Numbered, measured: Measured, sent: Sent, came: Exchanged) -> Told:
        return request_record(
            of,
            self.composer.settings,
            sent,
            came,
            given_out=self.given_out,
            incremental=measured.incremental,
            keep_text=self.keep_text,
        )

    @contextlib.asynccontextmanager
    async def _watching(self, measured: Measured, looks: list[Look]) -> AsyncIterator[None]:
        async def watch() -> None:
            while True:
                await asyncio.sleep(self.look_seconds)
                look = await measured.client.look()
                if look is not None:
                    looks.append(look)

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _counted(self, measured: Measured, before: Counters | None, records: Sequence[RequestRecord]) -> Counted | None:
        if before is None:
            return None
        after = await measured.client.settled_counters(before, len(records))
        if after is None:
            return None
        tokens = sum(record.completion_tokens for record in records)
        return counted(before, after, tokens=tokens, requests=sum(record.whole for record in records))
