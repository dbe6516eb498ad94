"""What integration tests share: waiting for a condition, and short manifests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")
Manifest = dict[str, Any]


async def eventually(condition: Callable[[], Awaitable[T | None]], *, seconds: float = 20.0, every_seconds: float = 0.1) -> T:
    """Wait until a condition gives something true and return that; the error shows what it gave last."""
    last: object = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await condition()
                if found:
                    return found
                last = found
                await asyncio.sleep(every_seconds)
    except TimeoutError:
        raise AssertionError(f"not within {seconds:g} s: {condition.__qualname__}; last: {last!r}") from None


def pod(name: str, script: str = "", **container: Any) -> Manifest:
    """Give a pod with one container that runs a Python script; `pod_spec` in the keywords is merged into the pod's spec."""
    spec = container.pop("pod_spec", {})
    annotations = container.pop("annotations", {})
    main = {"name": "main", "image": "python:3", **container}
    if script:
        main |= {"command": ["python3", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}, "annotations": annotations},
        "spec": {"containers": [main], "terminationGracePeriodSeconds": 5, **spec},
    }
