"""API keys: known ones pass, each within its limit, and no key is anywhere but in the Secret."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mtpilot.gateway.keys import FileApiKeys
from tests.integration.gateway.stage import Stage, until
from tests.unit.gateway.pods import pod


@pytest.fixture
async def keyed(new_stage, new_engine, tmp_path: Path):
    """Stage, engine and the folder of the keys; at most two requests of a key at a time."""
    (tmp_path / "team-a").write_text("sk-secret-a\n")
    (tmp_path / "team-b").write_text("sk-secret-b")
    (tmp_path / "..data").mkdir()
    stage, engine = await new_stage(agent=False, apiKeys={"secretName": "clients", "maxConcurrentRequests": 2}), await new_engine()
    stage.keys = FileApiKeys(tmp_path)
    await stage.start_agent()
    stage.say(pod(address=engine.address, slots=8))
    await stage.until_ready(engine.address)
    return stage, engine, tmp_path


async def ask(stage: Stage, key: str | None, marker: str = "x"):
    headers: Any = {} if key is None else {"Authorization": key}
    return await stage.post(marker, **headers)


async def test_only_known_keys_pass(keyed) -> None:
    stage, engine, _ = keyed
    engine.gate.set()
    assert (await ask(stage, "Bearer sk-secret-a")).status == 200
    assert (await ask(stage, "bearer sk-secret-b")).status == 200
    served = len(engine.received)
    for wrong in (None, "Bearer", "Bearer wrong", "Basic sk-secret-a", "sk-secret-a", "Bearer loaded", "Bearer sk-secret-a x"):
        answer = await ask(stage, wrong)
        assert (answer.status, answer.body["error"]["code"]) == (401, "invalid_api_key"), wrong
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert len(engine.received) == served
    assert "authorization" not in {name.lower() for name in engine.headers[-1]}, "the engine needs no client's key"
    assert (await stage.get("/healthz")).status == 200


async def test_no_key_is_in_haproxy(keyed) -> None:
    stage, _, _ = keyed
    known = await stage.haproxy.admin.keys()
    assert sorted(known.values()) == ["team-a", "team-b", "yes"]
    assert not any("secret" in text for pair in known.items() for text in pair)


async def test_keys_come_and_go_while_it_runs(keyed) -> None:
    stage, engine, folder = keyed
    engine.gate.set()
    (folder / "team-c").write_text("sk-secret-c")
    (folder / "team-a").unlink()

    async def changed() -> bool:
        return [(await ask(stage, f"Bearer sk-secret-{name}")).status for name in "abc"] == [401, 200, 200]

    await until(changed, 4)


async def test_each_key_has_its_own_limit(keyed) -> None:
    stage, engine, _ = keyed
    running = [asyncio.create_task(ask(stage, "Bearer sk-secret-a", str(number))) for number in range(2)]
    await until(lambda: engine.running == 2)
    refused = await ask(stage, "Bearer sk-secret-a")
    assert (refused.status, refused.body["error"]["code"]) == (429, "too_many_requests")
    assert int(refused.headers["Retry-After"]) > 0
    running.append(asyncio.create_task(ask(stage, "Bearer sk-secret-b", "b")))
    await until(lambda: engine.running == 3)
    engine.gate.set()
    assert {answer.status for answer in await asyncio.gather(*running)} == {200}
    assert (await ask(stage, "Bearer sk-secret-a")).status == 200


async def test_a_restarted_haproxy_lets_nobody_in_before_it_has_the_keys(keyed) -> None:
    stage, engine, _ = keyed
    engine.gate.set()
    await stage.stop_agent()
    await stage.haproxy.kill()
    await stage.haproxy.start()
    for key in ("Bearer sk-secret-a", "Bearer wrong", None):
        assert (await ask(stage, key)).status == 503
    await stage.start_agent()
    stage.say(pod(address=engine.address, slots=8))
    await stage.until_ready(engine.address)
    assert (await ask(stage, "Bearer sk-secret-a")).status == 200


async def test_an_unreadable_folder_changes_nothing(keyed) -> None:
    stage, engine, folder = keyed
    engine.gate.set()
    stage.keys._folder = folder / "gone"
    await asyncio.sleep(1.3)
    assert (await ask(stage, "Bearer sk-secret-a")).status == 200
