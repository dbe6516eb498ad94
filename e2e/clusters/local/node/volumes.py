"""A pod's volumes as folders: config maps, secrets, projected tokens, downward API, scratch, host paths and claims.

Files are replaced one by one by rename, so a reader of a refreshed ConfigMap or token never sees half of it. Claims and creatable host
paths become folders of the cluster's state: a test bed must not write where a manifest meant a GPU node.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.clusters.kube import KubeClient, write_kubeconfig
from e2e.clusters.local.node.environment import ConfigError, Objects, PodFacts, data_of, field_value

SERVICE_ACCOUNT_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_KINDS = {"configMap": ("ConfigMap", "name"), "secret": ("Secret", "secretName")}
_PROJECTED = {"configMap": "ConfigMap", "secret": "Secret"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeStore:
    """Where the volumes of one pod live: `folder` is the pod's own, `state` the cluster's."""

    folder: Path
    state: Path
    namespace: str

    def path(self, volume: Mapping[str, Any]) -> Path:
        """Give the folder (or the host's own file) behind a volume; it is created where Kubernetes would create it."""
        if "hostPath" in volume:
            return self._host_path(volume["hostPath"])
        if "persistentVolumeClaim" in volume:
            path = self.state / "claims" / self.namespace / str(volume["persistentVolumeClaim"]["claimName"])
        else:
            path = self.folder / str(volume["name"])
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _host_path(self, source: Mapping[str, Any]) -> Path:
        if source.get("type") in {"Directory", "File", "Socket", "CharDevice", "BlockDevice"}:
            path = Path(source["path"])
            if not path.exists():
                raise ConfigError(f"hostPath type check failed: {path} is not a {source['type'].lower()}")
            return path
        path = self.state / "host" / str(source["path"]).lstrip("/")
        if source.get("type") == "FileOrCreate":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        else:
            path.mkdir(parents=True, exist_ok=True)
        return path


def references(pod: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Give the (kind, name) of each ConfigMap and Secret that a pod's volumes show."""
    found = set()
    for volume in pod["spec"].get("volumes", []):
        for key, (kind, name_key) in _KINDS.items():
            if key in volume:
                found.add((kind, volume[key][name_key]))
        for source in volume.get("projected", {}).get("sources", []):
            found |= {(kind, source[key]["name"]) for key, kind in _PROJECTED.items() if key in source}
    return found


def files(volume: Mapping[str, Any], pod: Mapping[str, Any], facts: PodFacts, objects: Objects) -> dict[str, bytes]:
    """Give the files of a volume that come from objects and the manifest; tokens are not among them."""
    found: dict[str, bytes] = {}
    for key, (kind, name_key) in _KINDS.items():
        if key in volume:
            found |= _selected(kind, volume[key][name_key], volume[key], objects)
    sources = [*volume.get("projected", {}).get("sources", [])]
    if "downwardAPI" in volume:
        sources.append({"downwardAPI": volume["downwardAPI"]})
    for source in sources:
        for key, kind in _PROJECTED.items():
            if key in source:
                found |= _selected(kind, source[key]["name"], source[key], objects)
        for item in source.get("downwardAPI", {}).get("items", []):
            if "fieldRef" in item:
                found[item["path"]] = field_value(item["fieldRef"]["fieldPath"], pod, facts).encode()
    return found


def _selected(kind: str, name: str, source: Mapping[str, Any], objects: Objects) -> dict[str, bytes]:
    manifest = objects.get((kind, name))
    if manifest is None:
        if source.get("optional"):
            return {}
        raise ConfigError(f'{kind.lower()} "{name}" not found')
    data = data_of(kind, manifest)
    if "items" not in source:
        return data
    missing = [item["key"] for item in source["items"] if item["key"] not in data]
    if missing and not source.get("optional"):
        raise ConfigError(f"{kind.lower()} references non-existent config key: {missing[0]}")
    return {item["path"]: data[item["key"]] for item in source["items"] if item["key"] in data}


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files that differ from what is there."""
    for name, content in contents.items():
        path = folder / name
        if path.is_file() and path.read_bytes() == content:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.touch(mode=0o600)
        temporary.write_bytes(content)
        temporary.replace(path)


def tokens(pod: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Give (volume name, projection) of each service-account token that a pod mounts."""
    return [
        (volume["name"], source["serviceAccountToken"])
        for volume in pod["spec"].get("volumes", [])
        for source in volume.get("projected", {}).get("sources", [])
        if "serviceAccountToken" in source
    ]


async def mint_token(client: KubeClient, pod: Mapping[str, Any], projection: Mapping[str, Any]) -> tuple[bytes, datetime.datetime]:
    """Ask for a token bound to the pod; gives it with the time of its renewal (four fifths of its life)."""
    metadata = pod["metadata"]
    seconds = projection.get("expirationSeconds", 3607)
    spec: dict[str, Any] = {
        "expirationSeconds": seconds,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]},
    }
    if projection.get("audience"):
        spec["audiences"] = [projection["audience"]]
    account = pod["spec"].get("serviceAccountName", "default")
    path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
    answer = await client.create(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
    renewal = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=0.8 * seconds)
    return answer["status"]["token"].encode(), renewal


def in_cluster_kubeconfig(path: Path, *, server: str, account_folder: Path, namespace: str) -> Path:
    """Write what stands for in-cluster configuration, which would be read from a fixed path that only root could provide."""
    user = {"tokenFile": str(account_folder / "token")}
    return write_kubeconfig(path, server=server, ca_file=account_folder / "ca.crt", user=user, namespace=namespace)
