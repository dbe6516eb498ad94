"""A kind cluster with GPU node pools for the end-to-end tests: real nodes, kubelets and pod networks, and no GPU.

`python -m e2e.kind up|down|status` keeps one; `python -m e2e.kind test` runs tests/e2e on it and writes out/e2e/report.json.
"""

from e2e.kind.cluster import KindCluster

__all__ = ["KindCluster"]
