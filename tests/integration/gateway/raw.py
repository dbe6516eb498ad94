"""Requests as bytes, for what no client library would send."""

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back: the statuses of all answers, and everything as text. No status: the connection was only closed."""

    statuses: tuple[int, ...]
    text: str


async def raw(address: str, *parts: bytes, port: int = 8080, pause_seconds: float = 0.0, seconds: float = 8.0) -> Reply:
    """Send the parts one after the other and read until the other side closes; never longer than `seconds`."""
    reader, writer = await asyncio.open_connection(address, port)
    received = bytearray()

    async def read() -> None:
        while chunk := await reader.read(65536):
            received.extend(chunk)

    reading = asyncio.create_task(read())
    try:
        async with asyncio.timeout(seconds):
            for part in parts:
                if reading.done():
                    break
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause_seconds)
            await reading
    except (ConnectionError, TimeoutError):
        pass
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        writer.close()
    text = received.decode(errors="replace")
    statuses = tuple(int(line.split()[1]) for line in text.split("\r\n") if line.startswith("HTTP/1."))
    return Reply(statuses=statuses, text=text)
