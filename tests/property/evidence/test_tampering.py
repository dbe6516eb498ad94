"""No change of a package goes unseen: of a byte, of a record, of their order, even where the sums and tables are made again after it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mtpilot.evidence.package import ENVIRONMENT, RECORDS, TABLES, package_files
from mtpilot.evidence.records import Record
from mtpilot.evidence.sums import SUMS, sha256_hex, sums_text
from mtpilot.evidence.tables import tables_bytes
from mtpilot.evidence.verify import verify
from tests.examples import examples
from tests.unit.evidence.runs import environment, records

RUN = records(levels=(1, 2), repeats=1)
FILES = package_files(environment(RUN), RUN, {"plots/throughput.png": b"\x89PNG of a test"})
FEW = examples(12)
PLACES = st.sampled_from(range(len(RUN)))


def with_records(found: list[Record]) -> dict[str, bytes]:
    """The package with other records, its tables and sums made again: all but the environment."""
    files = {**FILES, RECORDS: package_files(environment(RUN), found)[RECORDS]}
    files[TABLES] = tables_bytes(found, sha256_hex(files[RECORDS]), sha256_hex(files[ENVIRONMENT]))
    return {**files, SUMS: sums_text(files).encode()}


def test_the_untouched_package_is_whole():
    assert verify(FILES).problems == ()


@given(st.data())
def test_any_changed_byte_of_any_file_is_found(data: Any):
    name = data.draw(st.sampled_from(sorted(FILES)))
    content = bytearray(FILES[name])
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    assert verify({**FILES, name: bytes(content)}).problems


@given(st.data())
def test_any_changed_byte_of_the_records_is_found_though_the_sums_are_made_again(data: Any):
    content = bytearray(FILES[RECORDS])
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    files = {**FILES, RECORDS: bytes(content)}
    assert verify({**files, SUMS: sums_text(files).encode()}).problems


@FEW
@given(PLACES)
def test_a_removed_record_is_found(place: int):
    assert verify(with_records(RUN[:place] + RUN[place + 1 :])).problems


@FEW
@given(PLACES, PLACES)
def test_an_added_record_is_found(taken: int, place: int):
    assert verify(with_records([*RUN[:place], RUN[taken], *RUN[place:]])).problems


@FEW
@given(PLACES, PLACES)
def test_records_in_another_order_are_found(one: int, other: int):
    moved = list(RUN)
    moved[one], moved[other] = moved[other], moved[one]
    assert bool(verify(with_records(moved)).problems) == (one != other)


@FEW
@given(st.sampled_from([f"{name}{end}" for name in FILES for end in ("", ".bak", "/x")]))
def test_an_added_or_missing_file_is_found(name: str):
    if name in FILES:
        assert verify({kept: content for kept, content in FILES.items() if kept != name}).problems
    else:
        assert verify({**FILES, name: b""}).problems
