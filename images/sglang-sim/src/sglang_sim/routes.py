"""The HTTP surface: every path of the real server that an operator, a gateway or a client of this project calls.

Handlers only translate; what happens is in the scheduler and in Server. One middleware does what SGLang's own do:
authorisation and the counts of HTTP requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from sglang_sim import describe, requests
from sglang_sim.auth import refusal
from sglang_sim.faults import Faults
from sglang_sim.frames import GenerateFrames, OpenAIFrames
from sglang_sim.metrics import CONTENT_TYPE
from sglang_sim.requests import Ask, BadRequestError
from sglang_sim.rows import Row, Sink
from sglang_sim.server import Server
from sglang_sim.sse import CollectSink, StreamSink, collect, stream

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
SERVER: web.AppKey[Server] = web.AppKey("server", Server)
_POLL_SECONDS = 0.05
_PAUSE_MODES = ("abort", "retract", "in_place")


def _error(message: str, status: int) -> web.Response:
    return web.json_response(
        {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": status}, status=status
    )


async def _body(request: web.Request) -> dict[str, Any]:
    if not request.can_read_body:
        return {}
    try:
        value = await request.json()
    except ValueError:
        raise BadRequestError("the body is not JSON") from None
    if not isinstance(value, dict):
        raise BadRequestError("the body must be an object")
    return value


@web.middleware
async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count the request, refuse it without its key, and turn bad requests into 400."""
    server = request.app[SERVER]
    arguments, registry = server.engine.arguments, server.telemetry.registry
    resource = request.match_info.route.resource
    labels = (resource.canonical if resource is not None else "unmatched", request.method)
    registry["http_requests_total"].add(1, *labels)
    registry["http_requests_active"].add(1, *labels)
    try:
        status = refusal(
            method=request.method,
            path=request.path,
            authorization=request.headers.get("Authorization"),
            api_key=arguments.api_key,
            admin_api_key=arguments.admin_api_key,
        )
        response = web.json_response({"error": "Unauthorized"}, status=status) if status else await handler(request)
    except BadRequestError as error:
        response = _error(str(error), 400)
    except web.HTTPException as error:
        registry["http_responses_total"].add(1, *labels, str(error.status))
        raise
    finally:
        registry["http_requests_active"].add(-1, *labels)
    registry["http_responses_total"].add(1, *labels, str(response.status))
    return response


def _row(ask: Ask, sink: Sink) -> Row:
    return Row(
        rid=ask.rid,
        prompt_tokens=ask.prompt_tokens,
        limit=ask.limit,
        marker=ask.marker,
        streaming=ask.stream,
        ignore_eos=ask.ignore_eos,
        sink=sink,
    )


async def _answer(request: web.Request, ask: Ask, frames: OpenAIFrames | GenerateFrames) -> web.StreamResponse:
    server = request.app[SERVER]
    if ask.stream:
        sink = StreamSink(frames, server.loop)
        return await stream(request, server.scheduler, _row(ask, sink), sink)
    whole = CollectSink(server.loop)
    row = _row(ask, whole)
    refused = await collect(server.scheduler, row, whole)
    return refused if refused is not None else web.json_response(frames.whole(row))


async def chat_completions(request: web.Request) -> web.StreamResponse:
    server = request.app[SERVER]
    ask = requests.from_chat(await _body(request), server.engine, server.settings)
    return await _answer(request, ask, OpenAIFrames(ask, server.engine, chat=True))


async def completions(request: web.Request) -> web.StreamResponse:
    server = request.app[SERVER]
    ask = requests.from_completion(await _body(request), server.engine)
    return await _answer(request, ask, OpenAIFrames(ask, server.engine, chat=False))


async def generate(request: web.Request) -> web.StreamResponse:
    server = request.app[SERVER]
    ask = requests.from_generate(await _body(request), server.engine)
    return await _answer(request, ask, GenerateFrames(server.engine, server.scheduler.accept_length))


async def models(request: web.Request) -> web.Response:
    return web.json_response(describe.models(request.app[SERVER].engine))


async def model_info(request: web.Request) -> web.Response:
    return web.json_response(describe.model_info(request.app[SERVER].engine))


async def server_info(request: web.Request) -> web.Response:
    server = request.app[SERVER]
    status = "ready" if server.ready else "starting"
    return web.json_response(describe.server_info(server.engine, server.scheduler, status, server.startup_time))


async def loads(request: web.Request) -> web.Response:
    server = request.app[SERVER]
    if server.faults.loads_error:
        return _error("fault: loads_error", 500)
    began = time.perf_counter()
    include = frozenset(word for word in request.query.get("include", "").split(",") if word and word != "all")
    document = describe.loads(server.engine, server.scheduler, include=include)
    server.telemetry.registry["get_loads_duration_seconds"].observe(time.perf_counter() - began)
    return web.json_response(document)


async def metrics(request: web.Request) -> web.Response:
    server = request.app[SERVER]
    if not server.engine.arguments.enable_metrics:
        raise web.HTTPNotFound
    faults = server.faults
    page = "" if faults.empty_metrics else server.telemetry.page(nan=faults.nan_gauges, missing=faults.missing_gauges)
    return web.Response(body=page.encode(), headers={"Content-Type": CONTENT_TYPE})


async def ready(request: web.Request) -> web.Response:
    return web.Response(status=200 if request.app[SERVER].ready else 503)


async def health(request: web.Request) -> web.Response:
    """A request of one token through the engine, looked for once a second: never faster than a second, 503 after the time-out."""
    server = request.app[SERVER]
    if not server.warm or server.engine.mode in server.faults.never_ready or server.exiting:
        return web.Response(status=503)
    await asyncio.sleep(server.settings.health_seconds if server.faults.health_seconds is None else server.faults.health_seconds)
    deadline = server.loop.time() + server.settings.health_timeout_seconds
    while server.stuck:
        if server.loop.time() >= deadline:
            server.unhealthy = True
            return web.Response(status=503)
        await asyncio.sleep(0.25)
    server.unhealthy = False
    return web.Response(status=200)


async def flush_cache(request: web.Request) -> web.Response:
    server = request.app[SERVER]
    for _ in range(int(float(request.query.get("timeout", "0")) / _POLL_SECONDS)):
        if not server.scheduler.in_flight:
            break
        await asyncio.sleep(_POLL_SECONDS)
    if server.scheduler.in_flight:
        return web.Response(status=400, text="Flush cache failed: there are running or waiting requests.\n")
    server.scheduler.reset_lifetime()
    return web.Response(text="Cache flushed.\n")


async def abort_request(request: web.Request) -> web.Response:
    body = await _body(request)
    rid, everything = str(body.get("rid") or ""), bool(body.get("abort_all"))
    if not rid and not everything:
        raise BadRequestError("rid or abort_all is needed")
    request.app[SERVER].scheduler.abort_where(lambda row: everything or row.rid.startswith(rid))
    return web.Response()


async def pause_generation(request: web.Request) -> web.Response:
    mode = (await _body(request)).get("mode", "abort")
    if mode not in _PAUSE_MODES:
        raise BadRequestError(f"mode must be one of {', '.join(_PAUSE_MODES)}")
    request.app[SERVER].pause(mode)
    return web.json_response({"message": "Generation paused successfully.", "status": "ok"})


async def continue_generation(request: web.Request) -> web.Response:
    request.app[SERVER].resume()
    return web.json_response({"message": "Generation continued successfully.", "status": "ok"})


async def freeze_gc(_request: web.Request) -> web.Response:
    return web.Response(text="Garbage collection frozen.\n")


async def set_internal_state(request: web.Request) -> web.Response:
    """The one live knob: `pp_max_micro_batch_size` caps admission at once; anything else, or out of range, is `[false]`."""
    server = request.app[SERVER]
    given = (await _body(request)).get("server_args")
    accepted = False
    if isinstance(given, dict) and set(given) == {"pp_max_micro_batch_size"}:
        value = given["pp_max_micro_batch_size"]
        if isinstance(value, int) and 1 <= value <= server.engine.slots:
            server.scheduler.micro_batch_limit = value
            accepted = True
    return web.json_response([accepted])


async def read_faults(request: web.Request) -> web.Response:
    return web.json_response(request.app[SERVER].faults.document())


async def write_faults(request: web.Request) -> web.Response:
    server = request.app[SERVER]
    try:
        server.faults.update(await _body(request))
    except ValueError as error:
        raise BadRequestError(str(error)) from None
    server.apply_faults()
    return web.json_response(server.faults.document())


async def clear_faults(request: web.Request) -> web.Response:
    server = request.app[SERVER]
    server.faults.clear()
    server.apply_faults()
    return web.json_response(Faults.document(server.faults))


def application(server: Server) -> web.Application:
    """The routes over one Server; `/sim/faults` only where the environment opened it."""
    app = web.Application(middlewares=[middleware], client_max_size=64 << 20)
    app[SERVER] = server
    app.router.add_post("/v1/chat/completions", chat_completions)
    app.router.add_post("/v1/completions", completions)
    for path, handler in (
        ("/v1/models", models),
        ("/ready", ready),
        ("/health", health),
        ("/health_generate", health),
        ("/metrics", metrics),
    ):
        app.router.add_get(path, handler, allow_head=False)
    for path, handler in (
        ("/v1/loads", loads),
        ("/server_info", server_info),
        ("/get_server_info", server_info),
        ("/model_info", model_info),
    ):
        app.router.add_get(path, handler, allow_head=False)
    app.router.add_get("/get_model_info", model_info, allow_head=False)
    posts: dict[str, Handler] = {
        "/generate": generate,
        "/abort_request": abort_request,
        "/pause_generation": pause_generation,
        "/continue_generation": continue_generation,
        "/set_internal_state": set_internal_state,
    }
    for path, post in posts.items():
        app.router.add_post(path, post)
    for path, either in (("/flush_cache", flush_cache), ("/freeze_gc", freeze_gc)):
        app.router.add_route("*", path, either)
    if server.settings.faults_endpoint:
        app.router.add_get("/sim/faults", read_faults)
        app.router.add_post("/sim/faults", write_faults)
        app.router.add_delete("/sim/faults", clear_faults)
    return app
