"""Digest of what makes an engine fast or slow: its arguments in both modes, without those that only name or connect it.

A profile carries the digest of the arguments that it was measured with; another one means that what runs is not what was measured.
"""

import hashlib
from collections.abc import Mapping, Sequence

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec, Mode

from .arguments import engine_arguments
from .digest import canonical_json
from .options import split_options

# Identity, addresses, keys and metrics: they differ between services of the same speed.
WITHOUT_EFFECT = (
    "--model-path",
    "--revision",
    "--served-model-name",
    "--host",
    "--port",
    "--enable-metrics",
    "--extra-metric-labels",
    "--admin-api-key",
    "--node-rank",
    "--dist-init-addr",
)


def flags_sha256(spec: InferenceServiceSpec, hardware: HardwareClassSpec) -> str:
    """SHA-256 in hex over the remaining options of both modes, whatever their order and spelling.

    Raises:
        InvalidArguments: the spec renders no valid arguments.
    """
    return arguments_sha256({mode.value: engine_arguments(spec, hardware, mode) for mode in Mode})


def arguments_sha256(arguments: Mapping[str, Sequence[str]]) -> str:
    """The same of arguments that are there already, by the name of their mode; only what follows the command itself.

    Raises:
        InvalidArguments: a mode's words do not begin with a flag.
    """
    options = {mode: _options(words) for mode, words in arguments.items()}
    return hashlib.sha256(canonical_json(options).encode()).hexdigest()


def _options(args: Sequence[str]) -> list[list[str]]:
    options = (option for option in split_options(args, "args") if option.name not in WITHOUT_EFFECT)
    return sorted([option.name, *option.words[0].split("=", 1)[1:], *option.words[1:]] for option in options)
