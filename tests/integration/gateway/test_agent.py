"""The agent against the real HAProxy: what it sets, how fast, and what it leaves alone."""

import asyncio
import time

import aiohttp
from aiohttp import web

from mtpilot.gateway.health import health_app
from mtpilot.gateway.pods import ServerState
from mtpilot.render.gateway_pod import gateway_pod_spec
from tests.integration.gateway.conftest import fresh_address
from tests.integration.gateway.stage import until
from tests.unit.gateway.pods import pod
from tests.unit.render.samples import service, small_spec


async def test_a_change_is_there_at_once(stage, new_engine) -> None:
    engines = [await new_engine(answers=True) for _ in range(3)]
    times = []
    for serving in (True, False, True, False, True):
        began = time.monotonic()
        stage.say(*(pod(f"chat-r{i}", engine.address, serving=serving) for i, engine in enumerate(engines)))
        await stage.until_ready(*(engine.address for engine in engines if serving))
        times.append(time.monotonic() - began)
    assert max(times) < 0.5, times


async def test_the_engine_itself_says_how_much_it_takes(stage, new_engine) -> None:
    engine = await new_engine(slots=9)
    stage.say(pod(address=engine.address, slots=48))

    async def learnt() -> bool:
        server = (await stage.servers()).get(engine.address)
        return server is not None and server.maxconn == 9

    await until(learnt)


async def test_servers_are_places_that_stay(stage, new_engine) -> None:
    first, second, third = [await new_engine() for _ in range(3)]
    stage.say(pod("chat-r0", first.address), pod("chat-r1", second.address))
    await stage.until_ready(first.address, second.address)
    assert {address: server.name for address, server in (await stage.servers()).items()} == {first.address: "r0", second.address: "r1"}
    stage.say(pod("chat-r1", second.address), pod("chat-r1", third.address))
    await stage.until_ready(second.address, third.address)
    assert {address: server.name for address, server in (await stage.servers()).items()} == {second.address: "r1", third.address: "r15"}


async def test_restarted_haproxy_gets_its_servers_back(stage, new_engine) -> None:
    engine = await new_engine(answers=True)
    stage.say(pod("chat-r2", engine.address, slots=7))
    await stage.until_ready(engine.address)
    await stage.haproxy.kill()
    await stage.haproxy.start()
    request = asyncio.create_task(stage.post("meanwhile"))
    await stage.until_ready(engine.address)
    (server,) = (await stage.servers()).values()
    assert (server.name, server.maxconn) == ("r2", 7)
    assert (await request).status == 200


async def test_restarted_agent_changes_nothing(stage, new_engine) -> None:
    pods = [pod(f"chat-r{i}", (await new_engine()).address) for i in (3, 1)]
    stage.say(*pods)
    await stage.until_ready(*(manifest["status"]["podIP"] for manifest in pods))
    before = (await stage.haproxy.admin.pool()).servers
    await stage.stop_agent()
    await stage.start_agent()
    stage.say(*pods)
    await until(lambda: stage.agent.metrics.synced.collect()[0].samples[0].value > 0)
    assert (await stage.haproxy.admin.pool()).servers == before
    assert stage.agent.metrics.commands.collect()[0].samples[0].value == 0


async def test_without_the_api_server_haproxy_is_left_alone(stage, new_engine) -> None:
    engine = await new_engine(answers=True)
    stage.say(pod(address=engine.address))
    await stage.until_ready(engine.address)
    await stage.stop_agent()
    await stage.start_agent()  # and nothing is said to it
    await asyncio.sleep(1.5)
    await stage.until_ready(engine.address)
    assert (await stage.post("on")).status == 200
    assert stage.agent.ready, "what an earlier agent set up serves"


async def test_a_drifted_server_is_put_right(stage, new_engine) -> None:
    engine = await new_engine(answers=True)
    stage.say(pod(address=engine.address, slots=4))
    await stage.until_ready(engine.address)
    await stage.haproxy.admin.execute(["set server engines/r0 state maint", "set maxconn server engines/r0 1"])

    async def right() -> bool:
        server = (await stage.servers()).get(engine.address)
        return server is not None and (server.state, server.maxconn) == (ServerState.READY, 4)

    await until(right, 4)


async def test_ready_only_after_the_first_sync(new_stage) -> None:
    stage = await new_stage()
    await asyncio.sleep(0.3)
    assert not stage.agent.ready
    assert stage.agent.alive
    stage.say()
    await until(lambda: stage.agent.ready)


async def test_probes_and_metrics_over_http(stage) -> None:
    runner = web.AppRunner(health_app(stage.agent), access_log=None)
    await runner.setup()
    address = fresh_address()
    await web.TCPSite(runner, address, 8406).start()
    try:
        assert (await stage.get_at(address, "/healthz")).status == 503
        stage.say()
        await until(lambda: stage.agent.ready)
        assert (await stage.get_at(address, "/healthz")).status == 200
        assert (await stage.get_at(address, "/livez")).status == 200
        text = (await stage.get_at(address, "/metrics")).body
        assert 'mtpilot_gateway_servers{state="maint"} 16.0' in text
        assert "mtpilot_gateway_haproxy_up 1.0" in text
    finally:
        await runner.cleanup()


async def test_the_pool_has_an_end(stage) -> None:
    addresses = [fresh_address() for _ in range(18)]
    stage.say(*(pod(f"chat-r{i}", address) for i, address in enumerate(addresses)))
    await until(lambda: stage.agent.ready)
    assert stage.agent.metrics.unplaced.collect()[0].samples[0].value == 2
    servers = (await stage.haproxy.admin.pool()).servers
    assert sum(server.state is ServerState.READY for server in servers) == 16


async def test_flips_in_place_lose_nothing(stage, new_engine) -> None:
    """One replica, replaced ten times under a steady stream of requests."""
    engine = await new_engine(answers=True)
    engines = [engine]
    stage.say(pod(address=engine.address, slots=4))
    async with stage.clients(6) as steady:
        for _ in range(10):
            stage.say(pod(address=engine.address, slots=4, serving=False))
            await stage.until_ready()
            await until(lambda: engine.running == 0)  # noqa: B023
            stage.say(pod(address=engine.address, slots=4, terminating=True))
            await engine.stop()
            stage.say()
            engine = await new_engine(answers=True)
            engines.append(engine)
            stage.say(pod(address=engine.address, slots=4))
            await steady.more(10)
    assert len(steady.answers) >= 100
    steady.assert_each_answered_once(*engines)


async def end(stage) -> asyncio.subprocess.Process:
    """End the gateway's pod as a node does: SIGTERM for the agent, the hook for HAProxy."""
    (haproxy, _) = gateway_pod_spec(service(small_spec()))["containers"]
    stage.agent.stop()
    return await asyncio.create_subprocess_exec(*haproxy["lifecycle"]["preStop"]["exec"]["command"], env=stage.haproxy.environment)


async def ended(stage, hook: asyncio.subprocess.Process) -> None:
    """Everything is over by itself, so that no signal is left to matter."""
    assert await asyncio.wait_for(hook.wait(), 5) == 0
    assert await asyncio.wait_for(stage.haproxy.process.wait(), 5) == 0
    await stage.agent_ends()


async def refuses_connections(stage) -> bool:
    try:
        async with aiohttp.ClientSession() as fresh, fresh.get(f"{stage.haproxy.url}/healthz"):
            return False
    except aiohttp.ClientConnectorError:
        return True


async def test_an_ending_gateway_finishes_its_streams(stage, new_engine) -> None:
    engine = await new_engine(answers=True)
    stage.say(pod(address=engine.address))
    await stage.until_ready(engine.address)
    # NB: a connection that a client keeps open after the stream is not cut either; this client keeps none.
    async with stage.session.post(f"{stage.haproxy.url}/v1/stream", headers={"Connection": "close"}) as response:
        engine.events.put_nowait("one")
        await response.content.readuntil(b"\n\n")
        hook = await end(stage)
        await asyncio.sleep(1)
        late = await stage.post("while endpoints still name this pod")
        assert (late.status, late.headers["Connection"]) == (200, "close")
        await until(lambda: refuses_connections(stage), 10)
        engine.events.put_nowait("two")
        assert await response.content.readuntil(b"\n\n") == b"data: two\n\n"
        assert hook.returncode is None, "the hook must stay while a stream is open"
        engine.events.put_nowait(None)
        assert await response.content.read() == b"data: [DONE]\n\n"
    await ended(stage, hook)


async def test_kept_connections_move_on_only_when_the_gateway_ends(stage, new_engine) -> None:
    engine = await new_engine(answers=True)
    stage.say(pod(address=engine.address))
    await stage.until_ready(engine.address)
    assert "Connection" not in (await stage.post("before")).headers
    stage.agent.stop()
    await asyncio.sleep(0.2)
    assert (await stage.post("after")).headers["Connection"] == "close"
    await stage.stop_agent()
    await stage.start_agent()
    await asyncio.sleep(0.2)
    assert "Connection" not in (await stage.post("restarted agent, same pod")).headers


async def test_an_ending_gateway_serves_who_waits_in_it(stage, new_engine) -> None:
    """The replica of the waiting request comes only after the gateway should have stopped."""
    engine = await new_engine(answers=True)
    stage.say()
    waiting = asyncio.create_task(stage.post("waiting"))
    await asyncio.sleep(0.2)
    hook = await end(stage)
    await asyncio.sleep(7)
    assert not await refuses_connections(stage)
    stage.say(pod(address=engine.address))
    assert (await waiting).status == 200
    await until(lambda: refuses_connections(stage), 5)
    await ended(stage, hook)
