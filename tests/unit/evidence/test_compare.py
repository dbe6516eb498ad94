"""Two runs side by side: what is more, what may be chance, and what is unlike."""

from typing import Any

import pytest

from mtpilot.evidence.compare import Comparison, Finding, compare, ratio_of
from mtpilot.evidence.package import Package
from mtpilot.evidence.records import Record
from tests.unit.evidence.runs import engine, environment, records


def package(found: list[Record] | None = None, **changes: Any) -> Package:
    taken = records() if found is None else found
    return Package(environment=environment(taken, **changes), records=tuple(taken), records_sha256="0" * 64)


def found(comparison: Comparison) -> list[Finding]:
    return [row.tokens_per_second.finding for row in comparison.rows]


def test_a_run_beside_itself_tells_no_difference() -> None:
    comparison = compare(package(), package())
    assert set(found(comparison)) == {Finding.SAME}
    assert (len(comparison.rows), comparison.warnings, comparison.notes) == (6, (), ())
    assert comparison == compare(package(), package())


def test_a_run_of_each_mode_is_compared_mode_against_mode() -> None:
    comparison = compare(package(records(modes=("batch",))), package(records(modes=("mtp",))))
    assert [(row.here.mode, row.there.mode, row.here.concurrency) for row in comparison.rows] == [
        ("batch", "mtp", 1), ("batch", "mtp", 4), ("batch", "mtp", 16),
    ]  # fmt: skip
    assert found(comparison) == [Finding.MORE, Finding.MORE, Finding.LESS]
    first = comparison.rows[0].tokens_per_second
    assert first.ratio == pytest.approx(1.2, rel=1e-4)
    assert first.low is not None
    assert first.high is not None
    assert first.low < 1.2 < first.high
    assert comparison.warnings == ()
    assert comparison.notes == (
        "batch (direct) and mtp (direct) have other limits: arguments.max_running_requests: 64 and 24; slots: 64 and 24",
    )


def test_what_differs_besides_drafting_is_a_warning() -> None:
    batch, mtp = records(modes=("batch",)), records(modes=("mtp",))
    other = engine("mtp", engine="sglang 0.5.22", arguments=dict(engine("mtp").arguments) | {"quantization": "fp8", "port": 9})
    comparison = compare(package(batch), package(mtp, engines=(other,), acceptance="Synthetic", plan={"seed": 2}))
    assert comparison.warnings == (
        'the runs differ in acceptance: "Natural" and "Synthetic"',
        'the runs differ in plan.sampling: {"temperature": 0.7} and null',
        "the runs differ in plan.seed: 1 and 2",
        'batch (direct) and mtp (direct) differ in more than drafting: arguments.quantization: null and "fp8"; '
        'engine: "sglang 0.5.23" and "sglang 0.5.22"',
    )


def test_of_one_mode_drafting_too_is_unlike() -> None:
    steps = engine("mtp", arguments=dict(engine("mtp").arguments) | {"speculative_num_steps": 3})
    comparison = compare(package(), package(engines=(steps, engine("batch"))))
    assert comparison.warnings == ("mtp (direct) and mtp (direct) differ in more than drafting: arguments.speculative_num_steps: 1 and 3",)


def test_levels_that_one_lacks_are_counted_and_nothing_in_common_is_said() -> None:
    comparison = compare(package(records(levels=(1, 4))), package(records(levels=(4, 8, 16))))
    assert (len(comparison.rows), comparison.only_here, comparison.only_there) == (2, 2, 4)
    comparison = compare(package(records(levels=(1,))), package(records(levels=(2,))))
    assert comparison.warnings == ("no level was measured in both: nothing can be set side by side",)


@pytest.mark.parametrize(
    ("here", "there", "finding"),
    [
        ((100.0,), (200.0,), Finding.UNKNOWN),
        ((100.0, 100.0), (102.0, 102.0), Finding.SAME),  # beyond the repeats, not beyond one start of an engine
        ((100.0, 110.0, 90.0), (106.0, 96.0, 112.0), Finding.SAME),
        ((100.0, 101.0), (106.0, 105.0), Finding.MORE),
        ((100.0, 101.0), (90.0, 91.0), Finding.LESS),
    ],
)
def test_a_difference_must_be_beyond_the_repeats_and_beyond_one_start(here, there, finding) -> None:
    ratio = ratio_of(here, there)
    assert ratio is not None
    assert ratio.finding is finding


def test_no_ratio_without_numbers() -> None:
    assert ratio_of((), (1.0,)) is None
    assert ratio_of((0.0, 1.0), (1.0,)) is None
