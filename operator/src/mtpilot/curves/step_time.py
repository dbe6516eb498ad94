"""The time of one decode step, and the tok/s of both modes that follow from it.

    T(n, C)  = a + b n + w E(n) + kv C s           ms, with n tokens that are decoded or verified for C requests of s tokens of context
    X_batch  = 1000 C / T(C, C)
    X_mtp    = 1000 A C / (T((K+1) C, C) + (kv_mtp − kv) C s + d0 + d1 C)

A is the accept length, bonus token included, K the drafted tokens. E(n) is the share of a layer's experts that n tokens read. Were
all experts equally popular it would be 1 − (1 − k/E)^n; they are not, so their popularity is taken as gamma distributed, and
E(n) = 1 − (1 + n k/(E α))^−α. On the 397B pairs of the public figures this lowers the error at left-out levels by a third
(docs/profiles.md).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtpilot.api.inference_service import Mode

# Shape of the experts' popularity; 1 would be exponential, infinity equal. Chosen on one public pair, confirmed on others.
POPULARITY_SHAPE = 0.5
NANOSECONDS = 1e-6  # of one, in milliseconds

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """The parameters of the formula above: a, b, w in ms, kv and kv_mtp in ns, d0, d1 in ms; experts None: a dense model.

    mtp steps take a + d0 for themselves and b (K+1) + d1 for each request, both not negative, so that rates rise with requests.
    """

    step_milliseconds: float
    token_milliseconds: float
    experts_milliseconds: float = 0.0
    context_nanoseconds: float = 0.0
    mtp_context_nanoseconds: float = 0.0
    draft_milliseconds: float = 0.0
    draft_request_milliseconds: float = 0.0
    draft_tokens: int = 1
    experts: int | None = None
    active_experts: int | None = None

    def milliseconds(self, mode: Mode, requests: Floats, context_tokens: Floats | float) -> Floats:
        """Of one step with so many requests, each with so much context."""
        mtp = mode is Mode.MTP
        tokens = requests * (self.draft_tokens + 1 if mtp else 1)
        context = self.mtp_context_nanoseconds if mtp else self.context_nanoseconds
        shared = self.step_milliseconds + self.token_milliseconds * tokens + context * NANOSECONDS * requests * context_tokens
        read = self.experts_milliseconds * experts_read(tokens, self.experts, self.active_experts)
        drafting = self.draft_milliseconds + self.draft_request_milliseconds * requests if mtp else 0.0
        return np.asarray(shared + read + drafting, dtype=np.float64)

    def tokens_per_second(
        self, mode: Mode, requests: Floats, context_tokens: Floats | float, accept_length: Floats | float = 1.0
    ) -> Floats:
        """Output tok/s of the replica; `accept_length` counts in mtp mode only."""
        gained = accept_length if mode is Mode.MTP else 1.0
        return np.asarray(1000.0 * gained * requests / self.milliseconds(mode, requests, context_tokens), dtype=np.float64)


def experts_read(tokens: Floats, experts: int | None, active_experts: int | None) -> Floats:
    """Share of a layer's routed experts that so many tokens read, 0 for a dense model."""
    if not experts or not active_experts:
        return np.zeros_like(tokens)
    share: Floats = 1.0 - (1.0 + tokens * active_experts / (experts * POPULARITY_SHAPE)) ** -POPULARITY_SHAPE
    return share
