"""A small JSON client of the Kubernetes API for the test bed: plain dicts over aiohttp.

The process node watches and patches all day beside everything else on two cores, so it uses neither models nor threads. The product's
own client is a different one on purpose: a fault there must not hide in its test bed.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml

Manifest = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_REQUEST_SECONDS = 30.0


class ApiError(Exception):
    """The API server refused; `status` is the HTTP status, `reason` the CamelCase word of the Status object."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status: int = status
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """The parts of a kubeconfig that this client uses; certificates are file paths."""

    server: str
    ca_file: Path
    certificate_file: Path | None = None
    key_file: Path | None = None
    token_file: Path | None = None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the current context of a kubeconfig that refers to files (as `write_kubeconfig` makes)."""
        document = yaml.safe_load(path.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]

        def file(key: str) -> Path | None:
            return Path(user[key]) if key in user else None

        return cls(
            server=cluster["server"],
            ca_file=Path(cluster["certificate-authority"]),
            certificate_file=file("client-certificate"),
            key_file=file("client-key"),
            token_file=file("tokenFile"),
        )


def write_kubeconfig(path: Path, *, server: str, ca_file: Path, user: dict[str, str], namespace: str = "default") -> Path:
    """Write a kubeconfig with one context, readable by its owner only; `user` is the kubeconfig's own user entry."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "local",
        "clusters": [{"name": "local", "cluster": {"server": server, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "user", "namespace": namespace}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


@dataclass(slots=True)
class KubeClient:
    """An open client; use it as an async context manager."""

    config: Kubeconfig
    user_agent: str = "mtpilot-e2e"
    _session: aiohttp.ClientSession | None = None
    _plurals: dict[str, dict[str, tuple[str, bool]]] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=str(self.config.ca_file))
        if self.config.certificate_file is not None:
            context.load_cert_chain(self.config.certificate_file, self.config.key_file)
        connector = aiohttp.TCPConnector(ssl=context, limit=64)
        self._session = aiohttp.ClientSession(connector=connector, headers={"User-Agent": self.user_agent})
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open HTTP session; RuntimeError outside the context."""
        if self._session is None:
            raise RuntimeError("the client is not open")
        return self._session

    def _headers(self, content_type: str | None = None) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if content_type:
            headers["Content-Type"] = content_type
        if self.config.token_file is not None:
            headers["Authorization"] = f"Bearer {self.config.token_file.read_text().strip()}"
        return headers

    async def request(self, method: str, path: str, *, body: Any = None, content_type: str = "application/json", **params: str) -> Manifest:
        """Send one request and give the decoded answer; ApiError for a refusal, aiohttp.ClientError when the server is away."""
        data = None if body is None else json.dumps(body)
        headers = self._headers(content_type if body is not None else None)
        timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS)
        async with self.session.request(
            method, self.config.server + path, data=data, headers=headers, params=params, timeout=timeout
        ) as answer:
            await _raise_for_status(answer)
            decoded: Manifest = await answer.json(content_type=None)
            return decoded

    async def get(self, path: str, **params: str) -> Manifest:
        """GET one object or list."""
        return await self.request("GET", path, **params)

    async def create(self, path: str, body: Manifest) -> Manifest:
        """POST an object to a collection or subresource."""
        return await self.request("POST", path, body=body)

    async def patch(self, path: str, body: Manifest, *, content_type: str = MERGE, **params: str) -> Manifest:
        """PATCH an object; see MERGE, STRATEGIC and APPLY."""
        return await self.request("PATCH", path, body=body, content_type=content_type, **params)

    async def delete(self, path: str, body: Manifest | None = None) -> Manifest:
        """DELETE an object; `body` is its DeleteOptions."""
        return await self.request("DELETE", path, body=body)

    async def apply(self, manifest: Manifest, *, namespace: str = "default", field_manager: str = "mtpilot-e2e") -> Manifest:
        """Apply one manifest server-side, forced; an object without a namespace goes to `namespace` where its kind has one."""
        path = await self.path_of(manifest, namespace=namespace)
        return await self.patch(path, manifest, content_type=APPLY, fieldManager=field_manager, force="true")

    async def path_of(self, manifest: Manifest, *, namespace: str = "default") -> str:
        """Give the URL path of a manifest's object, by discovery; LookupError for a kind that the server does not know."""
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if kind not in self._plurals.get(version, {}):
            resources = (await self.get(root))["resources"]
            self._plurals[version] = {r["kind"]: (r["name"], r["namespaced"]) for r in resources if "/" not in r["name"]}
        if kind not in self._plurals[version]:
            raise LookupError(f"the API server has no {kind} in {version}")
        plural, namespaced = self._plurals[version][kind]
        middle = f"/namespaces/{metadata.get('namespace', namespace)}" if namespaced else ""
        return f"{root}{middle}/{plural}/{metadata['name']}"

    async def watch(
        self, path: str, *, resource_version: str, field_selector: str = "", timeout_seconds: int = 300
    ) -> AsyncIterator[Manifest]:
        """Yield watch events until the server ends the watch; an ERROR event (410 Gone) is raised as ApiError."""
        query = {
            "watch": "true",
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
            "allowWatchBookmarks": "true",
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=timeout_seconds + 30)
        url = self.config.server + path
        async with self.session.get(url, params=query, headers=self._headers(), timeout=timeout, read_bufsize=2**22) as answer:
            await _raise_for_status(answer)
            async for line in answer.content:
                event: Manifest = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
                yield event


async def _raise_for_status(answer: aiohttp.ClientResponse) -> None:
    if answer.status < 400:
        return
    text = await answer.text()
    try:
        status = json.loads(text)
        raise ApiError(answer.status, status.get("reason", ""), status.get("message", ""))
    except (json.JSONDecodeError, AttributeError):
        raise ApiError(answer.status, "", text[:500]) from None
