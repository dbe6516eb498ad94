"""A run in a cluster keeps what it has in a ConfigMap, so that another pod can go on with it and the operator sees how far it is."""

import gzip
import io
import tarfile
from base64 import b64decode, b64encode
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from mtpilot.adapters.kube.calibration import PROBLEM_KEY, PROFILE_KEY, RUN_KEY, progress_document, progress_key, run_of
from mtpilot.adapters.kube.client import KubeClient
from mtpilot.adapters.kube.paths import Ref
from mtpilot.model.measuring import RunProgress
from mtpilot.model.snapshot import Manifest

RECORDS_KEY, TABLES_KEY = "run.tar.gz", "tables.json"
LARGEST_BYTES = 900 * 1024  # of a ConfigMap's 1 MiB, with room for the rest


class TooLargeError(ValueError):
    """More records than a ConfigMap holds."""


class Shelf:
    """One ConfigMap. Open with `connect()` and use as an async context manager; every method raises ClusterError."""

    def __init__(self, client: KubeClient, *, namespace: str, name: str) -> None:
        self._client = client
        self._ref = Ref(api_version="v1", kind="ConfigMap", name=name, namespace=namespace)
        self._run = ""

    @classmethod
    async def connect(cls, *, namespace: str, name: str) -> Self:
        return cls(await KubeClient.connect(), namespace=namespace, name=name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._client.close()

    async def begin(self) -> dict[str, bytes]:
        """The files that this run has kept; what another run left is taken away. Before anything else."""
        found = await self._client.get(self._ref) or {}
        data, self._run = found.get("data") or {}, run_of(found)
        if data.get(RUN_KEY) == self._run:
            kept = (found.get("binaryData") or {}).get(RECORDS_KEY)
            return unpacked(b64decode(kept)) if kept else {}
        gone = dict.fromkeys(data, None)
        await self._client.patch(self._ref, {"data": gone | {RUN_KEY: self._run}, "binaryData": None})
        return {}

    async def tell(self, mode: str, progress: RunProgress, files: Mapping[str, bytes] | None = None) -> None:
        """How far a mode is, and the run's files with it.

        Raises:
            TooLargeError: the files do not fit; nothing was written.
        """
        body: Manifest = {"data": {RUN_KEY: self._run, progress_key(mode): progress_document(progress)}}
        if files:
            body["binaryData"] = {RECORDS_KEY: _fitting(packed(files))}
        await self._client.patch(self._ref, body)

    async def conclude(
        self, mode: str, progress: RunProgress, *, profile: str | None = None, problem: str | None = None, tables: bytes = b""
    ) -> None:
        """The end of a mode; after the last one with what both give."""
        data: dict[str, Any] = {RUN_KEY: self._run, progress_key(mode): progress_document(progress)}
        data |= {PROFILE_KEY: profile} if profile is not None else {}
        data |= {PROBLEM_KEY: problem} if problem is not None else {}
        if 0 < len(tables) < LARGEST_BYTES // 8:
            data[TABLES_KEY] = tables.decode()
        await self._client.patch(self._ref, {"data": data})


def packed(files: Mapping[str, bytes]) -> bytes:
    """Files as one compressed archive, the same bytes for the same files."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            archive.addfile(entry, io.BytesIO(files[name]))
    return gzip.compress(plain.getvalue(), mtime=0)


def unpacked(content: bytes) -> dict[str, bytes]:
    """`packed`'s files. Raises OSError or tarfile.TarError."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as archive:
        for entry in archive.getmembers():
            file = archive.extractfile(entry) if entry.isfile() else None
            if file is not None:
                found[entry.name] = file.read()
    return found


def _fitting(content: bytes) -> str:
    if len(content) > LARGEST_BYTES:
        size = f"{len(content) / 1024:.0f} KiB of records do not fit into a ConfigMap ({LARGEST_BYTES // 1024} KiB)"
        raise TooLargeError(f"{size}: give spec.profile.run.recordsClaim, or fewer levels or repeats")
    return b64encode(content).decode()
