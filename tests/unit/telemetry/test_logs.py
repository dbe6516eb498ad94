"""Log lines: JSON for machines, text for people, whoever wrote them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from mtpilot.telemetry.logs import LogFormat, configure_logs


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_our_lines_and_those_of_libraries_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogFormat.JSON)
    structlog.get_logger("mtpilot.x").info("done", service="chat", why="chat-r0 is missing")
    logging.getLogger("kopf.reactor").warning("watch of %s ended", "pods")
    logging.getLogger("kopf.objects").info("Handler 'pod' succeeded.")
    ours, theirs = lines(capsys.readouterr().err)
    assert (ours["message"], ours["service"], ours["level"], ours["logger"]) == ("done", "chat", "info", "mtpilot.x")
    assert str(ours["time"]).endswith("Z")
    assert (theirs["message"], theirs["level"], theirs["logger"]) == ("watch of pods ended", "warning", "kopf.reactor")


def test_an_exception_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogFormat.JSON)
    try:
        raise ValueError("no")
    except ValueError:
        structlog.get_logger("mtpilot.x").exception("turn failed")
    (line,) = lines(capsys.readouterr().err)
    assert "ValueError: no" in str(line["exception"])


def test_the_object_that_kopf_speaks_of_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogFormat.JSON)
    reference = {"namespace": "team-a", "name": "chat", "uid": "u"}
    logging.getLogger("kopf.objects").warning("something", extra={"k8s_ref": reference})
    (line,) = lines(capsys.readouterr().err)
    assert (line["namespace"], line["name"]) == ("team-a", "chat")


def test_text_and_level(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogFormat.TEXT, "WARNING")
    structlog.get_logger("mtpilot.x").info("quiet")
    structlog.get_logger("mtpilot.x").warning("loud", service="chat")
    text = capsys.readouterr().err
    assert "quiet" not in text
    assert "loud" in text
    assert "{" not in text


def test_configuring_twice_does_not_double_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogFormat.JSON)
    configure_logs(LogFormat.JSON)
    logging.getLogger("mtpilot.x").info("once")
    assert len(lines(capsys.readouterr().err)) == 1
