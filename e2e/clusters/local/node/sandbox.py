"""What a pod's containers share: folders, address, volumes, service account; and how a container's command is made from them.

Everything that reads the API for a pod is here. It may fail while the API server is away; the callers try again.
"""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.clusters.kube import ApiError, KubeClient
from e2e.clusters.local.config import Image, NodeConfig
from e2e.clusters.local.node import environment, volumes
from e2e.clusters.local.node.container import Prepared
from e2e.clusters.local.node.environment import Mapper, PodFacts

_NOT_FOUND = 404
_HOST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PLURALS = {"ConfigMap": "configmaps", "Secret": "secrets"}


class Sandbox:
    """The surroundings of one pod on this machine."""

    def __init__(self, pod: Mapping[str, Any], facts: PodFacts, config: NodeConfig, client: KubeClient) -> None:
        metadata = pod["metadata"]
        self.pod = pod
        self.facts = facts
        self._client = client
        self._namespace: str = metadata["namespace"]
        # NB: short, because a Unix socket's path in an emptyDir must stay under 108 characters.
        self.folder = config.state / "p" / metadata["uid"][:8]
        self.logs = config.state / "logs" / "pods" / self._namespace / metadata["name"]
        self._store = volumes.VolumeStore(folder=self.folder, state=config.state, namespace=self._namespace)
        self._paths: dict[str, Path] = {}
        self._renewals: dict[str, datetime.datetime] = {}

    async def mount(self) -> None:
        """Make the volumes, and renew their contents and tokens when called again; ConfigError, ApiError or ClientError if it cannot."""
        objects = await self._objects(volumes.references(self.pod))
        for volume in self.pod["spec"].get("volumes", []):
            path = self._store.path(volume)
            self._paths[volume["name"]] = path
            volumes.write_files(path, volumes.files(volume, self.pod, self.facts, objects))
        for name, projection in volumes.tokens(self.pod):
            if self._renewals.get(name, datetime.datetime.min.replace(tzinfo=datetime.UTC)) < datetime.datetime.now(datetime.UTC):
                token, self._renewals[name] = await volumes.mint_token(self._client, self.pod, projection)
                volumes.write_files(self._paths[name], {projection.get("path", "token"): token})

    async def prepare(self, container: Mapping[str, Any], image: Image) -> Prepared:
        """Resolve a container's command and environment; ConfigError for something missing."""
        objects = await self._objects(environment.references(container))
        variables = environment.resolve(container, self.pod, self.facts, objects)
        mapper = Mapper(self._mounts(container), self.facts.pod_ip)
        folder = self.folder / "c" / container["name"]
        base = self._base_environment(container, image, folder)
        # The image's own words name programs of this machine, which may lie below a path that the pod mounts something on (/tmp).
        own = {*image.entrypoint, *image.default_arguments, *(word for replaced in image.replacements for word in replaced.by)}
        words = environment.command_line(container, image, base | variables)
        command = [word if word in own else mapper.text(word) for word in words]
        if not command:
            raise environment.ConfigError("no command specified")
        working = mapper.text(container.get("workingDir", ""))
        return Prepared(
            command=command,
            environment=base | {name: mapper.text(value) for name, value in variables.items()},
            folder=Path(working) if working and Path(working).is_dir() else folder,
            log=self.logs / f"{container['name']}.log",
            pid_file=self.folder / "run" / f"{container['name']}.pid",
            translate=mapper.texts,
        )

    def remove(self) -> None:
        """Remove the pod's folder; logs, claims and host paths stay."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _mounts(self, container: Mapping[str, Any]) -> dict[str, str]:
        """Give the folder behind each mount path; the account's kubeconfig is made beside its token."""
        found = {}
        for mount in container.get("volumeMounts", []):
            path = self._paths[mount["name"]]
            if mount.get("subPath"):
                path = path / mount["subPath"]
                if not path.exists():
                    path.mkdir(parents=True)
            found[mount["mountPath"]] = str(path)
        return found

    def _base_environment(self, container: Mapping[str, Any], image: Image, folder: Path) -> dict[str, str]:
        folder.mkdir(parents=True, exist_ok=True)
        host, _, port = self._client.config.server.removeprefix("https://").partition(":")
        variables = {
            "PATH": os.pathsep.join([*image.path_prepend, _HOST_PATH]),
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "HOSTNAME": self.pod["metadata"]["name"],
            "LANG": "C.UTF-8",
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
        }
        account = self._mounts(container).get(volumes.SERVICE_ACCOUNT_MOUNT)
        if account is not None:
            path = self.folder / "kubeconfig"
            volumes.in_cluster_kubeconfig(path, server=self._client.config.server, account_folder=Path(account), namespace=self._namespace)
            variables["KUBECONFIG"] = str(path)
        return variables | image.environment

    async def _objects(self, references: set[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
        found = {}
        for kind, name in sorted(references):
            try:
                found[kind, name] = await self._client.get(f"/api/v1/namespaces/{self._namespace}/{_PLURALS[kind]}/{name}")
            except ApiError as error:
                if error.status != _NOT_FOUND:
                    raise
        return found
