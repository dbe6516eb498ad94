"""A package is the same bytes wherever and whenever it is written, and whole until somebody changes it."""

import json
import locale
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mtpilot.evidence import plots
from mtpilot.evidence.files import open_package, read_files, write_package
from mtpilot.evidence.package import ENVIRONMENT, RECORDS, InvalidPackage, environment_of, package_files, read_package
from mtpilot.evidence.records import BatchRecord, Record, Sampling
from mtpilot.evidence.sums import SUMS, sums_text
from mtpilot.evidence.verify import verify
from tests.unit.evidence.runs import batch_of, engine, environment, records, request


def test_a_package_comes_back_as_it_was_written(tmp_path: Path) -> None:
    found = records(levels=(1, 2))
    files = write_package(tmp_path / "run", environment(found), found, plots=False)
    assert read_files(tmp_path / "run") == files
    package = open_package(tmp_path / "run")
    assert package.environment == environment_of(files[ENVIRONMENT])
    assert package.records == tuple(found)
    assert sorted(files) == ["SHA256SUMS", "environment.json", "method.md", "records.jsonl", "tables.json"]


def test_the_same_records_make_the_same_bytes_and_stay_whole_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another folder, clock, zone and locale; plots too, one of them here for time's sake."""
    monkeypatch.setattr(plots, "_FIGURES", plots._FIGURES[:1])
    found = records(levels=(1, 4), repeats=2)
    first = write_package(tmp_path / "here", environment(found), found)
    assert first["plots/throughput.png"].startswith(b"\x89PNG")
    before = locale.setlocale(locale.LC_ALL)
    away = tmp_path / "a place" / "ünder"
    away.mkdir(parents=True)
    monkeypatch.setenv("TZ", "Pacific/Chatham")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setattr(time, "time", lambda: 1.0)
    monkeypatch.chdir(away)
    try:
        time.tzset()
        for name in ("de_DE.UTF-8", "C.UTF-8", "C"):
            try:
                locale.setlocale(locale.LC_ALL, name)
                break
            except locale.Error:
                continue
        assert write_package(Path("there"), environment(found), found) == first
        for path in (away / "there").rglob("*"):
            os.utime(path, (0, 0))
        assert verify(read_files(Path("there"))).problems == ()
    finally:
        locale.setlocale(locale.LC_ALL, before)
        monkeypatch.undo()
        time.tzset()


def test_a_package_is_written_once_and_never_by_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = records(levels=(1,), repeats=1)
    write_package(tmp_path / "run", environment(found), found, plots=False)
    with pytest.raises(FileExistsError, match="is not empty"):
        write_package(tmp_path / "run", environment(found), found, plots=False)

    def full(*_: object) -> int:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space left"):
        write_package(tmp_path / "other", environment(found), found, plots=False)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_an_engine_reports_may_be_infinite() -> None:
    found = records(levels=(1,), repeats=1)
    odd = environment(found, engines=(engine("mtp", server_info={"load": float("inf"), "list": [float("nan")]}), engine("batch")))
    files = package_files(odd, found)
    assert json.loads(files[ENVIRONMENT])["engines"][0]["server_info"] == {"load": "inf", "list": ["nan"]}
    assert verify(files).problems == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda files: files.pop(RECORDS), "records.jsonl is missing"),
        (lambda files: files.update({RECORDS: files[RECORDS][:-1]}), "the last line has no end"),
        (lambda files: files.update({RECORDS: b"{}\n"}), "records.jsonl: line 1: kind is None"),
        (lambda files: files.update({RECORDS: b'\xff"\n'}), "records.jsonl: 'utf-8' codec"),
        (lambda files: files.update({ENVIRONMENT: b"[]"}), "environment.json: it is no JSON object"),
        (lambda files: files.update({ENVIRONMENT: b'{"schema": "other/v9"}'}), "schema is 'other/v9'"),
    ],
)
def test_what_is_no_package_is_refused_by_file_and_line(change, words: str) -> None:
    found = records(levels=(1,), repeats=1)
    files = package_files(environment(found), found)
    change(files)
    with pytest.raises(InvalidPackage) as refused:
        read_package(files)
    assert words in str(refused.value)
    assert any(words in problem for problem in verify(files).problems)


def test_figures_that_do_not_follow_from_the_requests_are_found_though_all_else_is_made_again() -> None:
    found = records(levels=(1, 2), repeats=1)
    last = found[-1]
    assert isinstance(last, BatchRecord)
    found[-1] = replace(last, figures=replace(last.figures, tokens_per_second=999.0))
    assert verify(package_files(environment(found), found)).problems == (
        "records.jsonl: line 10: the figures of batch 3 do not follow from its requests",
    )


def test_a_request_of_another_level_than_its_batch_is_found() -> None:
    requests = [request(0, 0, concurrency=2), request(0, 1, concurrency=2, sampling=Sampling.SAMPLED)]
    found: list[Record] = [*requests, batch_of(requests)]
    assert verify(package_files(environment(found), found)).problems == (
        "records.jsonl: line 3: batch 0 and its requests differ in sampling",
    )


def test_a_batch_without_requests_is_another_tools_or_a_fault() -> None:
    told = batch_of([request(0, 0)], told_by="another tool")
    about = environment([told])
    found = verify(package_files(about, [told]))
    assert (found.problems, found.told_batches) == ((), 1)
    lone = replace(told, told_by="")
    assert verify(package_files(about, [lone])).problems == ("records.jsonl: line 1: batch 0 has no requests",)


def test_a_value_of_another_kind_is_a_problem_and_no_crash() -> None:
    found = records(levels=(1,), repeats=1)
    files = package_files(environment(found), found)
    files[RECORDS] = files[RECORDS].replace(b'"completion_tokens":100', b'"completion_tokens":"100"')
    files[ENVIRONMENT] = files[ENVIRONMENT].replace(b'"batches": 2', b'"batches": null')
    assert any("has a value of another kind" in problem for problem in verify(files).problems)


def test_whoever_makes_the_whole_package_anew_is_caught_only_by_a_digest_from_elsewhere() -> None:
    found = records(levels=(1, 2))
    true = package_files(environment(found), found)
    fewer = records(levels=(1,))
    false = package_files(environment(fewer), fewer)
    published = verify(true).records_sha256
    assert verify(false).problems == ()
    assert "these are other records" in verify(false, records_sha256=published).problems[0]
    assert verify(true, records_sha256=published).problems == ()


def test_links_and_what_is_no_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / RECORDS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidPackage, match=r"records\.jsonl is no plain file"):
        read_files(tmp_path / "run")
    with pytest.raises(OSError, match="none"):
        read_files(tmp_path / "none")


def test_sums_are_as_sha256sum_reads_them() -> None:
    found = records(levels=(1,), repeats=1)
    files = package_files(environment(found), found)
    lines = files[SUMS].decode().splitlines()
    assert [line[64:] for line in lines] == ["  environment.json", "  method.md", "  records.jsonl", "  tables.json"]
    assert sums_text(files).encode() == files[SUMS]
