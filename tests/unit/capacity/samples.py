"""Shapes of known models, and GPUs."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from mtpilot.capacity.memory import Gpu
from mtpilot.capacity.quantity import GIB, MIB
from mtpilot.capacity.read_config import read_config
from mtpilot.capacity.shape import GatedDeltaNet, ModelShape

MODELS = Path(__file__).parents[2] / "samples" / "models"
H100 = Gpu(memory_bytes=81559 * MIB)
H200 = Gpu(memory_bytes=143771 * MIB)
RTX_PRO_6000 = Gpu(memory_bytes=96 * GIB)


def raw(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((MODELS / f"{name}.json").read_text(encoding="utf-8"))
    return document


@cache
def shape(name: str) -> ModelShape:
    return read_config(raw(name))


def linear(name: str) -> GatedDeltaNet:
    found = shape(name).linear
    assert found is not None
    return found
