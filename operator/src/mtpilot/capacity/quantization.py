"""Bytes of a quantised weight, and which layers a checkpoint left as they were.

A checkpoint names its exceptions by module, with or without wildcards, one by one or by layer. What counts here is which kind
of layer they belong to and in how many layers; the small ones (gates, norms, convolutions, heads) are never quantised.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import NotCovered

FULL_BYTES = 2.0  # bfloat16 or float16
_EXCEPTION_LISTS = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")
_NEVER_QUANTISED = frozenset(
    {"in_proj_a", "in_proj_b", "in_proj_ba", "conv1d", "gate", "shared_expert_gate", "router", "fc", "lm_head", "embed_tokens", "norm"}
)
_KINDS = ("linear_attn", "self_attn", "shared_expert", "experts", "mlp")  # the first that a name has
_WHOLE_LAYERS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """Bytes of one quantised weight, scales included; `exceptions`: kind of layer → the layers (-1: all) that are not quantised."""

    bytes_per_weight: float = FULL_BYTES
    exceptions: Mapping[str, frozenset[int]]

    def mean_bytes(self, kind: str, layers: int) -> float:
        """Bytes of a weight of this kind, over the model's `layers` of it."""
        excepted = self.exceptions.get(kind, frozenset())
        share = 1.0 if _WHOLE_LAYERS in excepted else min(len(excepted) / max(layers, 1), 1.0)
        return share * FULL_BYTES + (1 - share) * self.bytes_per_weight


def read_quantization(config: Mapping[str, Any]) -> Quantization:
    """What `quantization_config` says; an empty one is no quantisation.

    Raises:
        NotCovered: an unknown method or number of bits, or a field of another form.
    """
    if not config:
        return Quantization(exceptions={})
    names = [str(name) for key in _EXCEPTION_LISTS for name in _list(config, key)]
    return Quantization(bytes_per_weight=_bytes_per_weight(config), exceptions=_exceptions(names))


def _bytes_per_weight(config: Mapping[str, Any]) -> float:
    method = str(config.get("quant_method", "modelopt")).lower()
    if method == "fp8":
        return 1 + _block_scale(_list(config, "weight_block_size"))
    if method in ("awq", "gptq", "auto-round"):
        bits, group = _bits(config, "bits"), _group_size(config) or 128
        return (bits + (16 + bits) / group) / 8 if group > 0 else bits / 8
    if method == "mxfp4":
        return (4 + 8 / 32) / 8
    if method.startswith("modelopt"):
        return _modelopt(config)
    if method == "compressed-tensors":
        return _compressed_tensors(config)
    raise NotCovered("quantization_config.quant_method", f"{method} is not covered; give the weights of a GPU in bytes instead")


def _modelopt(config: Mapping[str, Any]) -> float:
    algorithm = str(config.get("quant_algo", "")).upper()
    known = {"NVFP4": (4 + 8 / 16) / 8, "FP8": 1.0}
    if algorithm not in known:
        problem = f"{algorithm or 'nothing'} is not covered; give the weights of a GPU in bytes instead"
        raise NotCovered("quantization_config.quant_algo", problem)
    return known[algorithm]


def _compressed_tensors(config: Mapping[str, Any]) -> float:
    groups = _object(config, "config_groups")
    sizes = set()
    for name in groups:
        path = f"config_groups.{name}."
        weights = _object(_object(groups, name, "config_groups."), "weights", path)
        bits = _bits(weights, "num_bits", f"{path}weights.")
        scale_bits = 8 if weights.get("type") == "float" and bits == 4 else 16
        step = _group_size(weights, f"{path}weights.")
        sizes.add((bits + (scale_bits / step if step > 0 else 0)) / 8)
    if len(sizes) != 1:
        raise NotCovered("quantization_config.config_groups", "must have one weight format; give the weights of a GPU in bytes instead")
    return sizes.pop()


def _block_scale(block: list[Any]) -> float:
    """Bytes of the 32-bit scale of a block, for each of its weights; 0 without blocks."""
    if not block:
        return 0.0
    if len(block) != 2 or not all(isinstance(side, int) and side > 0 for side in block):
        raise NotCovered("quantization_config.weight_block_size", f"must be two whole numbers above 0, not {block!r}")
    return 4.0 / float(block[0] * block[1])


def _group_size(values: Mapping[str, Any], path: str = "") -> int:
    """Weights that share a scale; -1: all of a row, 0: not told."""
    found = values.get("group_size") or 0
    if not isinstance(found, int):
        raise NotCovered(f"quantization_config.{path}group_size", f"must be a whole number, not {found!r}")
    return found


def _list(values: Mapping[str, Any], name: str) -> list[Any]:
    found = values.get(name) or []
    if not isinstance(found, list):
        raise NotCovered(f"quantization_config.{name}", f"must be a list, not {found!r}")
    return found


def _object(values: Mapping[str, Any], name: str, path: str = "") -> Mapping[str, Any]:
    found = values.get(name) or {}
    if not isinstance(found, Mapping):
        raise NotCovered(f"quantization_config.{path}{name}", "must be an object")
    return found


def _bits(values: Mapping[str, Any], name: str, path: str = "") -> int:
    bits = values.get(name)
    if bits not in (2, 3, 4, 8):
        raise NotCovered(f"quantization_config.{path}{name}", f"must be 2, 3, 4 or 8, not {bits!r}")
    return int(bits)


def _exceptions(names: Iterable[str]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for name in names:
        parts = [part for part in re.split(r"[^A-Za-z0-9_]+", name) if part]
        if not parts or parts[-1] in _NEVER_QUANTISED or "visual" in parts or "vision_tower" in parts:
            continue
        layer = re.search(r"layers\.([0-9]+)(?![0-9])", name)
        kind = "mtp" if "mtp" in parts else next((kind for kind in _KINDS if any(part.startswith(kind) for part in parts)), None)
        if kind is not None:
            found.setdefault(kind, set()).add(_WHOLE_LAYERS if layer is None or kind == "mtp" else int(layer.group(1)))
    return {kind: frozenset(layers) for kind, layers in found.items()}
