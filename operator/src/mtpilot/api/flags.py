"""Flags that SGLang 0.5.23 has dropped, and what took their place.

The parser answers an old name with "unrecognized" or "ambiguous" and exit code 2, after the pod was scheduled. The CRD and the
renderer refuse it by name instead.
"""

from collections.abc import Mapping

DROPPED_FLAGS: Mapping[str, str] = {
    "--mamba-scheduler-strategy": "--mamba-radix-cache-strategy",
    "--cuda-graph-max-bs": "--cuda-graph-max-bs-decode",
    "--cuda-graph-bs": "--cuda-graph-bs-decode",
}
