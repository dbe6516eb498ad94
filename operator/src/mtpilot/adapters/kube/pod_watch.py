"""The pods of one service as a stream of whole sets: list once, then watch.

For the gateway's agent, which must see a change within a second and outlive the API server: a watch that ends, stalls or is
too old is begun anew, and while nobody answers the last set simply stays. It asks by path, as client.py does: the library's typed
API loads a model for every kind, which doubled the CPU of a gateway's start and cost it 25 MB.
"""

import asyncio
import json
import random
import ssl
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import aiohttp
import structlog
from kubernetes.aio.client.api_client import ApiClient

from mtpilot.model.snapshot import Manifest
from mtpilot.ports import ClusterError

from .access import load_configuration
from .paths import collection_path

LIST_SECONDS = 10.0
WATCH_SECONDS = 30  # NB: bounds how long a connection that died without a sign goes unnoticed
_WATCH_MARGIN_SECONDS = 5.0
_BACK_OFF_SECONDS = (0.2, 2.0)  # first and longest; the API server's return shall be seen at once
_GONE = 410

_log = structlog.get_logger(__name__)


class _TooOldError(Exception):
    """The resource version is no longer known: list again."""


class PodWatch:
    """Pods of `namespace` that match `label_selector`. Use as an async context manager."""

    def __init__(self, api: ApiClient, *, namespace: str, label_selector: str, watch_seconds: int = WATCH_SECONDS) -> None:
        self._api = api
        self._path = collection_path("v1", "Pod", namespace)
        self._label_selector = label_selector
        self._watch_seconds = watch_seconds

    @classmethod
    async def connect(cls, *, namespace: str, label_selector: str) -> Self:
        """With the access that `access.load_configuration` finds. Raises ClusterError where there is none."""
        return cls(ApiClient(await load_configuration()), namespace=namespace, label_selector=label_selector)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        transport: Any = self._api.rest_client
        await transport.close()

    async def snapshots(self) -> AsyncIterator[tuple[Manifest, ...]]:
        """All pods, first once listed and then after each change; never ends, never raises for a cluster that is away."""
        failures = 0
        while True:
            try:
                async for pods in self._until_broken():
                    failures = 0
                    yield pods
            except _TooOldError:
                _log.info("pod watch is too old, listing again")
            except (ClusterError, aiohttp.ClientError, TimeoutError, ssl.SSLError, OSError, ValueError) as error:
                failures += 1
                if failures & (failures - 1) == 0:  # the 1st, 2nd, 4th, 8th, …
                    _log.warning(
                        "pods cannot be watched, keeping the last set", error=f"{type(error).__name__}: {error}", failures=failures
                    )
                await asyncio.sleep(_back_off_seconds(failures))

    async def _until_broken(self) -> AsyncIterator[tuple[Manifest, ...]]:
        pods, version = await self._list()
        yield tuple(pods.values())
        while True:
            async for events in self._watch(version):
                changed = False
                for event in events:
                    version = event["object"]["metadata"]["resourceVersion"]
                    changed |= _note(pods, event)
                if changed:
                    yield tuple(pods.values())

    async def _get(self, query: dict[str, str], seconds: float) -> aiohttp.ClientResponse:
        """An open response, at most `seconds` long in all."""
        pairs = list({"labelSelector": self._label_selector, **query}.items())
        _, url, headers, _, _ = await self._api.param_serialize(
            "GET", self._path, query_params=pairs, header_params={"Accept": "application/json"}, auth_settings=["BearerToken"]
        )
        transport: Any = self._api.rest_client  # untyped in the library
        answer = await transport.request("GET", url, headers=headers, _request_timeout=seconds)
        response: aiohttp.ClientResponse = answer.response
        return response

    async def _list(self) -> tuple[dict[str, Manifest], str]:
        async with await self._get({}, LIST_SECONDS) as response:
            await _check(response)
            answer = json.loads(await response.read())
        pods = {pod["metadata"]["uid"]: pod for pod in answer.get("items") or ()}
        return pods, answer["metadata"]["resourceVersion"]

    async def _watch(self, version: str) -> AsyncIterator[list[dict[str, Any]]]:
        """Events as they come, those of one packet together; ends when the server ends the watch."""
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._watch_seconds),
        }
        async with await self._get(query, self._watch_seconds + _WATCH_MARGIN_SECONDS) as response:
            await _check(response)
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                events = [json.loads(line) for line in lines if line.strip()]
                for event in events:
                    _check_event(event)
                if events:
                    yield events


def _note(pods: dict[str, Manifest], event: dict[str, Any]) -> bool:
    """Take an event into the set; whether it changed anything."""
    pod, kind = event["object"], event["type"]
    if kind == "DELETED":
        return pods.pop(pod["metadata"]["uid"], None) is not None
    if kind not in {"ADDED", "MODIFIED"}:
        return False
    pods[pod["metadata"]["uid"]] = pod
    return True


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status == _GONE:
        raise _TooOldError
    if response.status >= 400:
        raise ClusterError(f"HTTP {response.status}: {(await response.text())[:200]}")


def _check_event(event: dict[str, Any]) -> None:
    if event["type"] != "ERROR":
        return
    status = event["object"]
    if status.get("code") == _GONE:
        raise _TooOldError
    raise ClusterError(f"watch ended: {status.get('message') or status}")


def _back_off_seconds(failures: int) -> float:
    first, longest = _BACK_OFF_SECONDS
    # Jitter, so that the gateways of a cluster do not come back to a restarted API server in step.
    return min(longest, first * 2.0 ** min(failures - 1, 10)) * random.uniform(0.7, 1.0)
