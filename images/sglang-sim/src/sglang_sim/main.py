"""`sglang-sim`: parse as SGLang does, load, serve, drain, exit as SGLang does.

Exit codes are the real ones: 2 for a command line that the parser refuses, 1 for arguments that do not resolve, 0 after a drain.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence

from aiohttp import web

from sglang_sim import curves, engine, faults, flags, settings
from sglang_sim.routes import application
from sglang_sim.server import Server


async def serve(resolved: engine.Engine, chosen: settings.Settings) -> None:
    """Run one server until it has drained."""
    server = Server(resolved, chosen, faults.at_start(chosen))
    await server.load()
    runner = web.AppRunner(
        application(server),
        handler_cancellation=True,
        access_log=None,
        keepalive_timeout=chosen.keep_alive_seconds,
        shutdown_timeout=0.5,
    )
    await runner.setup()
    host, port = chosen.bind_host or resolved.arguments.host, resolved.arguments.port
    try:
        await web.TCPSite(runner, host, port, backlog=1024).start()
        logging.getLogger("sglang_sim").info("listening on %s:%d", host, port)
        server.start()
        await server.drained.wait()
    finally:
        await server.stop()
        await runner.cleanup()


def resolve(argv: Sequence[str]) -> tuple[engine.Engine, settings.Settings]:
    """Arguments and environment to a resolved engine; SystemExit(2) from the parser, ValueError from the resolution."""
    arguments: argparse.Namespace = flags.parse(argv)
    chosen = settings.from_environment()
    return engine.resolve(arguments, argv, curves.load(chosen.curve), chosen), chosen


def main(argv: Sequence[str] | None = None) -> None:
    """The console script; takes the words after `sglang-sim`, or after an image's `python3 -m sglang.launch_server`."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        resolved, chosen = resolve(words)
    except (ValueError, OSError, KeyError) as error:
        sys.stderr.write(f"sglang-sim: {type(error).__name__}: {error}\n")
        sys.exit(1)
    logging.basicConfig(level=resolved.arguments.log_level.upper(), stream=sys.stderr, format="[%(asctime)s] %(message)s")
    try:
        asyncio.run(serve(resolved, chosen))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
