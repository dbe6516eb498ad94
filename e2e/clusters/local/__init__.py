"""A real control plane, a node that runs pods as processes, and Prometheus, all on loopback addresses and without root."""

from e2e.clusters.local.cluster import LocalCluster
from e2e.clusters.local.component import Component, ComponentError
from e2e.clusters.local.config import Image, NodePool, NodePools, Replacement

__all__ = ["Component", "ComponentError", "Image", "LocalCluster", "NodePool", "NodePools", "Replacement"]
