"""SGLang 0.5.23 flags that a user may not pass: those that mtpilot renders or cannot bear, and those that SGLang dropped.

argparse takes a unique abbreviation for the flag itself, so a rendered flag can be overridden without being named in full.
The CRD's CEL rules and the renderer read the same tables.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

# In both modes, always: the operator relies on each of them.
RENDERED_FLAGS: tuple[str, ...] = (
    "--admin-api-key",
    "--context-length",
    "--enable-metrics",
    "--extra-metric-labels",
    "--host",
    "--max-running-requests",
    "--mem-fraction-static",
    "--model-path",  # and its alias --model, which is a prefix of it
    "--port",
    "--revision",
    "--served-model-name",
)

# In mode mtp, from modes.mtp.speculation. Other flags of this family may be passed in modes.mtp.extraArgs.
SPECULATION_FLAGS: tuple[str, ...] = (
    "--speculative-adaptive",
    "--speculative-algorithm",
    "--speculative-draft-model-path",
    "--speculative-eagle-topk",
    "--speculative-num-draft-tokens",
    "--speculative-num-steps",
)
SPECULATION_PREFIX = "--speculative-"

# Refused as well: the operator could not reach the engine, or could not see what it runs with; the nodes are the hardware class's.
UNSUPPORTED_FLAGS: tuple[str, ...] = (
    "--api-key",
    "--config",
    "--dist-init-addr",
    "--nccl-init-addr",
    "--nnodes",
    "--node-rank",
)

# Old flag -> what to use instead. The 0.5.23 parser refuses them, finds them ambiguous, or calls them deprecated.
DROPPED_FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "--cuda-graph-bs": "--cuda-graph-bs-decode",
        "--cuda-graph-max-bs": "--cuda-graph-max-bs-decode",
        "--disable-cuda-graph": "--cuda-graph-backend-decode=disabled and --cuda-graph-backend-prefill=disabled",
        "--disable-spec-v2": "no flag: the second speculative worker is the only one",
        "--enable-dp-attention": "--attn-dp-size",
        "--mamba-scheduler-strategy": "--mamba-radix-cache-strategy",
        "--speculative-batch-size-threshold": "modes.mtp.speculation.adaptive",
        "--speculative-disable-by-batch-size": "modes.mtp.speculation.adaptive",
    }
)


def flag_name(argument: str) -> str | None:
    """The flag of one argument, without a value after ``=``; None for a value or a bare ``--``."""
    name = argument.split("=", 1)[0]
    return name if name.startswith("--") and name != "--" else None


def closed_flag(argument: str, closed: Iterable[str] = (*RENDERED_FLAGS, *UNSUPPORTED_FLAGS)) -> str | None:
    """The closed flag that an argument would set, in full or abbreviated; None when it sets none."""
    name = flag_name(argument)
    return next((flag for flag in closed if flag.startswith(name)), None) if name else None
