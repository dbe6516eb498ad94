"""method.md: how the figures of a package were had, for a reader who has only the package."""

from collections.abc import Iterator, Sequence

from .alike import limit_words, name_of, unlike_words
from .environment import Engine, Environment
from .levels import levels_of
from .records import BatchRecord, Loop, Record

_METHOD = """\
## How the figures are made

Each request is one line of `records.jsonl`; each batch (the requests of one mode, route, endpoint, sampling, context, level and repeat) is
the line after its requests. A batch's figures follow from its requests, each table of `tables.json` from the batches:

* **tokens_per_second**: completion tokens over the wall time less the longest time to first token: how fast the engine decodes once all
  have begun. Where requests waited for a slot (`queue_measured`), and in an open loop, it is completion tokens over the wall time.
* **wall_tokens_per_second**: completion tokens over the wall time, prefill included.
* **per_request_tokens_per_second**: the mean over requests of the tokens after the first over the time after it.
* **accept_length**: tokens per verification step with the bonus token, over the batch alone where `accept_length_from` says `counters`.
* **markers**: each prompt asks for a marker of its own. `markers_missing` answers do not have it; `leaked` answers have another row's.
* Percentiles are nearest rank. Mean, `spread` (standard deviation, n − 1), `least` and `greatest` are over the repeats of a level.
* **mtp_over_batch** is the ratio of the means; `lowest` and `highest` are the ratios of the extremes of the repeats.

Only answers without an error count for tokens and rates. Warm-up is not in the records.

## How to check it

`mtpilot evidence verify DIR` makes every figure and table again from the records and checks every digest in `SHA256SUMS`. It finds any
changed byte, and any record that was removed, added or moved. Nothing is signed: whoever makes the whole package anew makes a valid one. So
compare the digest of `records.jsonl` with one that was published elsewhere, like `recordsSha256` of the ThroughputProfile:
`mtpilot evidence verify DIR --records-sha256 DIGEST`. The plots are drawn from the records; only their digests are checked.
"""


def method_text(environment: Environment, records: Sequence[Record]) -> str:
    """Markdown: what was measured and on what, what to mind, how the figures are made."""
    batches = [record for record in records if isinstance(record, BatchRecord)]
    parts = [
        f"# Evidence of run {environment.run_id}\n",
        "\n".join(_run(environment, batches)),
        "\n## Engines\n",
        "\n".join(line for engine in environment.engines for line in _engine(engine)),
        "\n## What to mind\n",
        "\n".join(f"* {text}." for text in _warnings(environment, batches)),
        "\n" + _METHOD,
    ]
    return "\n".join(parts)


def _run(environment: Environment, batches: Sequence[BatchRecord]) -> Iterator[str]:
    yield f"* Taken by mtpilot {environment.mtpilot_version}, from {environment.started_at} to {_told(environment.finished_at)}"
    yield f"* {environment.batches} batches with {environment.requests} requests, acceptance {environment.acceptance}"
    levels = levels_of(batches)
    closed = sorted({level.concurrency for level in levels if level.loop is Loop.CLOSED})
    rates = sorted({level.rate_per_second for level in levels if level.rate_per_second is not None})
    if closed:
        yield f"* Closed loop, requests in flight: {', '.join(map(str, closed))}"
    if rates:
        yield f"* Open loop, requests/s: {', '.join(f'{rate:g}' for rate in rates)}"
    if levels:
        yield f"* Repeats of a level: {min(map(len, levels.values()))} to {max(map(len, levels.values()))}"
    if tools := sorted({batch.told_by for batch in batches if batch.told_by}):
        yield f"* Figures told by {', '.join(tools)}"


def _engine(engine: Engine) -> Iterator[str]:
    yield f"* **{name_of(engine)}**: {engine.engine}, {engine.model}"
    yield f"    * slots: {_told(engine.slots)} effective, {_told(engine.asked_slots)} asked for"
    yield f"    * hardware class: {_told(engine.hardware_class)}; image: {_told(engine.image)}"
    yield f"    * digest of the engine arguments: {engine.flags_sha256}"
    if engine.launch_command:
        yield f"    * started as `{engine.launch_command}`"


def _warnings(environment: Environment, batches: Sequence[BatchRecord]) -> list[str]:
    """Those of the run, those that the engines give, and what the records say themselves."""
    found = [*environment.warnings, *unlike_words(environment.engines), *limit_words(environment.engines)]
    if queued := sorted({f"{batch.mode} at {batch.concurrency}" for batch in batches if batch.queue_measured}):
        found.append(f"requests waited for a slot, so the queue was measured with the engine: {', '.join(queued)}")
    if leaked := sum(batch.figures.leaked for batch in batches):
        found.append(f"{leaked} answers have another row's marker: requests leak into one another")
    if batches and not any(batch.figures.markers_checked for batch in batches):
        found.append("no markers were checked, so nothing is known of requests that leak into one another")
    return list(dict.fromkeys(text.rstrip(".") for text in found)) or ["nothing that the run itself could see"]


def _told(value: object) -> str:
    return "not told" if value is None else str(value)
