"""`mtpilot plan`: the plan of a file is the plan of production."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtpilot.adapters.snapshot_file import dump_snapshot
from mtpilot.cli import exits
from mtpilot.cli.main import app
from mtpilot.cli.plan import describe_action, differences, plan_document
from mtpilot.model.plan import DeleteObject, ReleaseService, SetServing
from mtpilot.reconcile import plan
from tests.world import World

runner = CliRunner()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def file(world: World, tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.yaml"
    path.write_text(dump_snapshot(world.snapshot()))
    return path


def test_json_is_the_plan(world: World, file: Path) -> None:
    result = runner.invoke(app, ["plan", "-f", str(file), "--now", world.now.isoformat(), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.output) == json.loads(json.dumps(plan_document(world.snapshot(), plan(world.snapshot(), world.now))))


def test_text_names_decision_actions_and_changes(world: World, file: Path) -> None:
    result = runner.invoke(app, ["plan", "-f", str(file), "--now", world.now.isoformat()], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "team-a/chat" in result.output
    assert "1. create Secret chat-admin unless it is there" in result.output
    assert "apply Deployment chat-r0: chat-r0 is missing" in result.output
    assert "status is written" in result.output


def test_a_saved_snapshot_is_planned_for_its_own_time(world: World, tmp_path: Path) -> None:
    """Hours later, dwell times and deadlines must not have run out in it."""
    path = tmp_path / "snapshot.yaml"
    path.write_text(dump_snapshot(replace(world.snapshot(), taken_at=world.now)))
    result = runner.invoke(app, ["plan", "-f", str(path), "--json"])
    assert json.loads(result.output) == json.loads(json.dumps(plan_document(world.snapshot(), plan(world.snapshot(), world.now))))


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, ": No such file or directory"), (b"\x89PNG", "can't decode"), (b"- a\n- b\n", ": not a snapshot")],
)
def test_a_file_that_is_no_snapshot_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "wrong.yaml"
    if content is not None:
        path.write_bytes(content)
    result = runner.invoke(app, ["plan", "-f", str(path)])
    assert result.exit_code == exits.USAGE
    assert f"mtpilot: {path}: " in result.output
    assert message in result.output
    assert "Errno" not in result.output


def test_a_time_that_is_none_is_told_beside_one_that_is(file: Path) -> None:
    result = runner.invoke(app, ["plan", "-f", str(file), "--now", "yesterday"])
    assert result.exit_code == exits.USAGE
    assert "--now: 'yesterday' is no RFC 3339 time, like 2026-" in result.output


def test_a_steady_service_has_nothing_to_do(world: World, tmp_path: Path) -> None:
    world.run(120)
    path = tmp_path / "steady.yaml"
    path.write_text(dump_snapshot(world.snapshot()))
    result = runner.invoke(app, ["plan", "-f", str(path), "--now", world.now.isoformat()])
    assert "nothing to do" in result.output


@pytest.mark.parametrize(
    "arguments", [["-f", "/nonexistent"], ["-f", __file__], ["-f", "FILE", "--now", "noon"]], ids=["no file", "no snapshot", "no time"]
)
def test_unreadable_input_is_a_usage_error(file: Path, arguments: list[str]) -> None:
    result = runner.invoke(app, ["plan", *[str(file) if word == "FILE" else word for word in arguments]])
    assert result.exit_code == exits.USAGE
    assert "mtpilot:" in result.output


def test_actions_in_words() -> None:
    assert describe_action(SetServing(pod="p", uid="u", serving=False)) == "take traffic from pod p"
    assert describe_action(DeleteObject(api_version="v1", kind="Pod", name="p", uid="u", why="old")) == "delete Pod p: old"
    assert "finalizer" in describe_action(ReleaseService())


def test_differences_are_leaves() -> None:
    before = {"a": 1, "b": {"c": [1, 2]}, "d": [1]}
    after = {"a": 1, "b": {"c": [1, 3]}, "d": [1, 2], "e": None}
    assert differences(before, after) == [("b.c[1]", 2, 3), ("d", [1], [1, 2])]
    assert differences(before, before) == []
