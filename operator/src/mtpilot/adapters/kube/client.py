"""A client of the Kubernetes API in plain dicts: get, list, apply, create, patch, delete.

Every request has a time limit and every retry an end: a wedged API server makes a turn fail, never hang. What is retried is
safe to repeat (reads, server-side applies, deletions with a uid); a POST is retried only when the server said "not now".
"""

import asyncio
import json
import ssl
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
from kubernetes.aio.client.api_client import ApiClient

from mtpilot.model.snapshot import Manifest
from mtpilot.ports import ClusterError

from .access import load_configuration
from .paths import Ref, collection_path

REQUEST_SECONDS = 10.0
_ATTEMPTS = 4
_RETRY_AFTER_LIMIT_SECONDS = 5.0
_TURNED_AWAY = frozenset({429, 503})
_TRANSIENT = frozenset({429, 500, 502, 503, 504})
_PAGE = "500"

APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class ApiError(ClusterError):
    """The API server refused. `status` is the HTTP status, `reason` the CamelCase word of its answer."""

    def __init__(self, *, status: int, reason: str, message: str) -> None:
        super().__init__(message or f"HTTP {status} {reason}")
        self.status = status
        self.reason = reason


class KubeClient:
    """Open with `connect()` and use as an async context manager."""

    def __init__(self, api: ApiClient, *, request_seconds: float = REQUEST_SECONDS) -> None:
        self._api = api
        self._transport: Any = api.rest_client  # untyped in the library
        self._seconds = request_seconds
        api.user_agent = "mtpilot"

    @classmethod
    async def connect(cls) -> Self:
        """Access as `access.load_configuration` finds it."""
        return cls(ApiClient(await load_configuration()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def get(self, ref: Ref, *, metadata_only: bool = False) -> Manifest | None:
        """The object, or None where there is none."""
        try:
            _, answer = await self.request("GET", ref.path, accept=_METADATA if metadata_only else None)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return answer | {"apiVersion": ref.api_version, "kind": ref.kind}

    async def list_all(
        self,
        api_version: str,
        kind: str,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        cached: bool = False,
        metadata_only: bool = False,
    ) -> list[Manifest]:
        """All objects that match, page by page. `cached` reads the server's watch cache: cheap, maybe a moment old."""
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query |= {"resourceVersion": "0"} if cached else {"limit": _PAGE}
        path = collection_path(api_version, kind, namespace)
        items: list[Manifest] = []
        while True:
            _, answer = await self.request("GET", path, query=query, accept=_METADATA_LIST if metadata_only else None)
            items += [item | {"apiVersion": api_version, "kind": kind} for item in answer.get("items") or ()]
            token = answer.get("metadata", {}).get("continue")
            if not token:
                return items
            query["continue"] = token

    async def apply(
        self, manifest: Manifest, *, field_manager: str, subresource: str | None = None, force: bool = True
    ) -> tuple[bool, Manifest]:
        """Server-side apply. With `metadata.uid` set it is refused (409) for any other object, and for none.

        Returns:
            Whether the object was created by this request, and the object.
        """
        path = Ref.of(manifest).path + (f"/{subresource}" if subresource else "")
        query = {"fieldManager": field_manager, "force": "true" if force else "false"}
        status, answer = await self.request("PATCH", path, query=query, body=manifest, content_type=APPLY_PATCH)
        return status == 201, answer

    async def create(self, manifest: Manifest, *, field_manager: str) -> Manifest:
        """POST; ApiError 409 where the name is taken."""
        path = collection_path(manifest["apiVersion"], manifest["kind"], manifest["metadata"].get("namespace"))
        _, answer = await self.request("POST", path, query={"fieldManager": field_manager}, body=manifest)
        return answer

    async def review(self, manifest: Manifest) -> Manifest:
        """POST of an object that is only a question (access reviews)."""
        _, answer = await self.request("POST", collection_path(manifest["apiVersion"], manifest["kind"], None), body=manifest)
        return answer

    async def patch(self, ref: Ref, body: Any, *, content_type: str = MERGE_PATCH) -> Manifest:
        _, answer = await self.request("PATCH", ref.path, body=body, content_type=content_type)
        return answer

    async def delete(self, ref: Ref, *, uid: str) -> bool:
        """Background deletion of exactly this object; False where it, or this incarnation of it, is gone."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            await self.request("DELETE", ref.path, body=body)
        except ApiError as error:
            if error.status in {404, 409}:
                return False
            raise
        return True

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | None] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str | None = None,
    ) -> tuple[int, Manifest]:
        """One request with its retries: status and decoded answer; ApiError for a refusal, ClusterError for no answer."""
        pairs = [(key, value) for key, value in (query or {}).items() if value is not None]
        retry_on = _TURNED_AWAY if method == "POST" else _TRANSIENT
        deadline = time.monotonic() + 2 * self._seconds
        for attempt in range(1, _ATTEMPTS + 1):
            wait = min(0.2 * 2**attempt, _RETRY_AFTER_LIMIT_SECONDS)
            try:
                status, headers, data = await self._send(method, path, query=pairs, body=body, content_type=content_type, accept=accept)
            except (aiohttp.ClientError, TimeoutError, ssl.SSLError, OSError) as error:
                failure: ClusterError = ClusterError(f"{method} {path}: no answer: {type(error).__name__} {error}".rstrip())
                again = method != "POST"
            else:
                if status < 400:
                    return status, _decode(data)
                failure = _refusal(status, data)
                again = status in retry_on
                wait = max(wait, _retry_after(headers))
            if not again or attempt == _ATTEMPTS or time.monotonic() + wait > deadline:
                raise failure
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def _send(
        self, method: str, path: str, *, query: list[tuple[str, str]], body: Any, content_type: str, accept: str | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = {"Accept": f"{accept},application/json" if accept else "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        _, url, sent_headers, sent_body, _ = await self._api.param_serialize(
            method, path, query_params=query, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        async with asyncio.timeout(self._seconds):
            answer = await self._transport.request(method, url, headers=sent_headers, body=sent_body, _request_timeout=self._seconds)
            return answer.status, answer.headers, await answer.read()


def _decode(data: bytes) -> Manifest:
    decoded: Manifest = json.loads(data) if data else {}
    return decoded


def _refusal(status: int, data: bytes) -> ApiError:
    try:
        answer = json.loads(data)
        return ApiError(status=status, reason=answer.get("reason", ""), message=answer.get("message", ""))
    except (ValueError, AttributeError):
        return ApiError(status=status, reason="", message=data[:200].decode(errors="replace"))


def _retry_after(headers: Mapping[str, str]) -> float:
    text = headers.get("Retry-After", "")
    return min(float(text), _RETRY_AFTER_LIMIT_SECONDS) if text.isdecimal() else 0.0
