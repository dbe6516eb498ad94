"""Whether a package is what was measured: every digest, every record in its place, every figure and every table made again.

What this does not stop: nothing is signed, so whoever re-makes the whole package (records, tables and sums) makes another valid one.
Against that stands a digest that was published elsewhere, like `provenance.recordsSha256` of the ThroughputProfile: give it to `verify`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .environment import Environment
from .figures import figures_of
from .package import ENVIRONMENT, RECORDS, TABLES, Files, InvalidPackage, environment_bytes, read_package
from .records import BatchRecord, Record, RequestRecord, line
from .sums import SUMS, sha256_hex, sums_problems
from .tables import tables_bytes

_MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What came of it. `problems`: why the package is not to be trusted; empty: it is whole.

    records_sha256, sums_sha256: digests of records.jsonl and of SHA256SUMS, the latter standing for the whole package; empty where the
    file is missing. told_batches: batches of another tool, whose figures cannot be made again from requests.
    """

    problems: tuple[str, ...]
    requests: int = 0
    batches: int = 0
    told_batches: int = 0
    records_sha256: str = ""
    sums_sha256: str = ""


def verify(files: Files, *, records_sha256: str | None = None) -> Verification:
    """Check a whole package.

    records_sha256: what the digest of records.jsonl should be, as told from elsewhere; None: not told.
    """
    found = sums_problems(files)
    digest, sums = (sha256_hex(files[name]) if name in files else "" for name in (RECORDS, SUMS))
    if records_sha256 is not None and digest != records_sha256:
        found.append(f"{RECORDS} has the SHA-256 {digest or 'of nothing'}, it should have {records_sha256}: these are other records")
    try:
        package = read_package(files)
    except InvalidPackage as error:
        return Verification(problems=(*found, str(error)), records_sha256=digest, sums_sha256=sums)
    records = package.records
    try:
        found += _content_problems(files, package.environment, records)
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        found.append(f"{RECORDS} or {ENVIRONMENT} has a value of another kind: {error}")
    batches = [record for record in records if isinstance(record, BatchRecord)]
    more = len(found) - _MOST_PROBLEMS
    return Verification(
        problems=(*found[:_MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])),
        requests=len(records) - len(batches),
        batches=len(batches),
        told_batches=sum(bool(batch.told_by) for batch in batches),
        records_sha256=digest,
        sums_sha256=sums,
    )


def record_problems(environment: Environment, records: Sequence[Record]) -> Iterator[str]:
    """Records that are missing, added, out of order, or whose figures do not follow from the requests."""
    waiting: list[RequestRecord] = []
    expected = 0
    for number, record in enumerate(records, 1):
        if record.run_id != environment.run_id:
            yield f"{RECORDS}: line {number} is of run {record.run_id}, not {environment.run_id}"
        if isinstance(record, RequestRecord):
            if (record.batch, record.index) != (expected, len(waiting)):
                yield _misplaced(number, f"request {record.index} of batch {record.batch}", f"request {len(waiting)} of batch {expected}")
            waiting.append(record)
            continue
        if record.batch != expected:
            yield _misplaced(number, f"batch {record.batch}", f"batch {expected}")
        yield from _batch_problems(number, record, waiting)
        waiting, expected = [], record.batch + 1
    if waiting:
        yield f"{RECORDS}: the last {len(waiting)} requests have no batch after them"
    counts = (sum(isinstance(record, BatchRecord) for record in records), sum(isinstance(record, RequestRecord) for record in records))
    if counts != (environment.batches, environment.requests):
        told = f"{environment.batches} batches and {environment.requests} requests"
        yield f"{RECORDS} has {counts[0]} batches and {counts[1]} requests, {ENVIRONMENT} says {told}"


def _content_problems(files: Files, environment: Environment, records: Sequence[Record]) -> list[str]:
    found = []
    if environment_bytes(environment) != files[ENVIRONMENT]:
        found.append(f"{ENVIRONMENT} is not as mtpilot writes it")
    if (lines := "".join(f"{line(record)}\n" for record in records).encode()) != files[RECORDS]:
        numbers = [
            str(n)
            for n, (mine, theirs) in enumerate(zip(lines.split(b"\n"), files[RECORDS].split(b"\n"), strict=False), 1)
            if mine != theirs
        ]
        found.append(f"{RECORDS} is not as mtpilot writes it, first in line {numbers[0] if numbers else 'unknown'}")
    found += record_problems(environment, records)
    if TABLES not in files:
        return [*found, f"{TABLES} is missing"]
    if tables_bytes(records, sha256_hex(files[RECORDS]), sha256_hex(files[ENVIRONMENT])) != files[TABLES]:
        found.append(f"{TABLES} does not follow from the records")
    return found


def _batch_problems(number: int, batch: BatchRecord, requests: Sequence[RequestRecord]) -> Iterator[str]:
    if not requests:
        if not batch.told_by:
            yield f"{RECORDS}: line {number}: batch {batch.batch} has no requests"
        return
    shared = ("mode", "route", "endpoint", "sampling", "context_bucket", "loop", "concurrency", "repeat", "rate_per_second")
    unlike = [name for name in shared if any(getattr(request, name) != getattr(batch, name) for request in requests)]
    if unlike:
        yield f"{RECORDS}: line {number}: batch {batch.batch} and its requests differ in {', '.join(unlike)}"
    if figures_of(requests) != batch.figures:
        yield f"{RECORDS}: line {number}: the figures of batch {batch.batch} do not follow from its requests"


def _misplaced(number: int, found: str, expected: str) -> str:
    return f"{RECORDS}: line {number} is {found} where {expected} belongs: records were removed, added or moved"
