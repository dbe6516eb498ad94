"""ThroughputProfiles for tests, in a line: power laws like those of the published report on Qwen3.5-122B."""

from collections.abc import Sequence
from typing import Any

from mtpilot.api.throughput_profile import ThroughputProfileSpec
from mtpilot.model.snapshot import Profile

MTP_LEVELS = (1, 2, 4, 8, 16, 24)
BATCH_LEVELS = (1, 2, 4, 8, 16, 24, 32, 48, 68)


def curve(
    mode: str, context_tokens: int, levels: Sequence[int], scale: float, exponent: float, accept_length: str | None
) -> dict[str, Any]:
    points = [{"concurrency": level, "outputTokensPerSecond": f"{scale * level**exponent:.1f}"} for level in levels]
    document = {"mode": mode, "contextTokens": context_tokens, "slots": levels[-1], "points": points}
    return document | ({"acceptLength": accept_length} if accept_length else {})


def curves(context_tokens: int = 1000, *, scale: float = 1.0, accept_length: str = "2.00") -> list[dict[str, Any]]:
    """Both modes at one context; mtp has 24 slots and batch 68."""
    return [
        curve("mtp", context_tokens, MTP_LEVELS, 121.5 * scale, 0.83, accept_length),
        curve("batch", context_tokens, BATCH_LEVELS, 108.0 * scale, 0.771, None),
    ]


def document(**changes: Any) -> dict[str, Any]:
    """The spec of a ThroughputProfile for the service of `tests.world`, as it is written; `provenance` is updated."""
    base = {
        "model": {"source": "hf://Qwen/Qwen3.5-122B-A10B"},
        "hardwareClass": "rtx",
        "acceptance": "Synthetic",
        "curves": curves(),
    }
    return base | changes | {"provenance": {"source": "a published report", **changes.get("provenance", {})}}


def profile(name: str = "measured", *, generation: int = 1, **changes: Any) -> Profile:
    return Profile(name=name, generation=generation, spec=ThroughputProfileSpec.model_validate(document(**changes)))
