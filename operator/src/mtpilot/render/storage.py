"""Volumes of the engine pod: shared memory and the model cache.

NCCL and SGLang's worker processes exchange data through /dev/shm, of which a container gets 64 MiB by default: too little
for tensor parallelism. The cache keeps weights between the starts that flips cost.
"""

from typing import Any

from mtpilot.api.model import ModelCache

from .model_source import CACHE_PATH

SHARED_MEMORY_VOLUME = "shm"
SHARED_MEMORY_SIZE = "16Gi"  # an upper bound; pages count towards the container's memory only once they are used
CACHE_VOLUME = "model-cache"


def pod_volumes(cache: ModelCache | None) -> list[dict[str, Any]]:
    """The pod's `volumes`."""
    volumes: list[dict[str, Any]] = [{"name": SHARED_MEMORY_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY_SIZE}}]
    if cache is not None and cache.persistent_volume_claim is not None:
        volumes.append({"name": CACHE_VOLUME, "persistentVolumeClaim": {"claimName": cache.persistent_volume_claim}})
    elif cache is not None and cache.host_path is not None:
        volumes.append({"name": CACHE_VOLUME, "hostPath": {"path": cache.host_path, "type": "DirectoryOrCreate"}})
    return volumes


def engine_mounts(cache: ModelCache | None) -> list[dict[str, Any]]:
    """The engine container's `volumeMounts`."""
    mounts = [{"name": SHARED_MEMORY_VOLUME, "mountPath": "/dev/shm"}]  # noqa: S108 - a mount point in the container
    if cache is not None:
        mounts.append({"name": CACHE_VOLUME, "mountPath": CACHE_PATH})
    return mounts
