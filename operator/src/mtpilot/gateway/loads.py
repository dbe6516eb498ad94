"""How many requests an engine really runs at a time.

SGLang may run fewer than it was asked to (memory, state slots of hybrid models), and a gateway that sends more only moves
the queue into the engine, where no other replica can take from it.
"""

import aiohttp

from .pods import EnginePod

ANSWER_TIMEOUT_SECONDS = 2.0


class HttpEngineSlots:
    """Asks `/v1/loads` of the pod."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def effective_slots(self, pod: EnginePod) -> int | None:
        """The sum of `max_running_requests` over the engine's ranks; None where it did not answer with one. Never raises."""
        host = f"[{pod.address}]" if ":" in pod.address else pod.address
        timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_SECONDS)
        try:
            async with self._session.get(f"http://{host}:{pod.port}/v1/loads", timeout=timeout) as response:
                response.raise_for_status()
                answer = await response.json(content_type=None)
                slots = sum(int(rank["max_running_requests"]) for rank in answer["loads"])
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError, TypeError):
            return None
        return slots if slots > 0 else None
