"""A real control plane, a node that runs pods as processes, and Prometheus, all on loopback addresses and without root.

The names below are loaded on first use: the process node is a part of this package and must start quickly, without certificates and
tool installation.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from e2e.clusters.local.cluster import LocalCluster
    from e2e.clusters.local.component import Component, ComponentError
    from e2e.clusters.local.config import Image, NodePool, NodePools, Replacement

__all__ = ["Component", "ComponentError", "Image", "LocalCluster", "NodePool", "NodePools", "Replacement"]

_HOMES = {"Component": "component", "ComponentError": "component", "LocalCluster": "cluster"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'config')}"), name)
