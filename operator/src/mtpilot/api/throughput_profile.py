"""ThroughputProfile: measured curves of one model on one hardware class."""

from enum import StrEnum

from pydantic import Field

from .inference_service import Mode
from .types import ApiModel, Decimal, Timestamp


class Acceptance(StrEnum):
    """How the accept length of the measurement was had (policy.md, "Curves")."""

    NATURAL = "Natural"
    SEMI_SYNTHETIC = "SemiSynthetic"
    SYNTHETIC = "Synthetic"


class Verdict(StrEnum):
    FLIP = "Flip"
    MTP_ONLY = "MtpOnly"
    BATCH_ONLY = "BatchOnly"


class Bound(StrEnum):
    SLOTS = "Slots"
    COMPUTE = "Compute"


class FitMethod(StrEnum):
    STEP_TIME = "StepTime"
    INTERPOLATION = "Interpolation"


class CurvePoint(ApiModel):
    concurrency: int = Field(ge=1, le=65_536)
    output_tokens_per_second: Decimal
    per_request_tokens_per_second: Decimal | None = None


class Curve(ApiModel):
    mode: Mode
    context_tokens: int = Field(ge=1, le=16_777_216)
    slots: int = Field(ge=1, le=65_536)
    accept_length: Decimal | None = None
    points: tuple[CurvePoint, ...] = Field(min_length=1, max_length=64)


class Provenance(ApiModel):
    source: str = Field(min_length=1, max_length=1024)
    measured_at: Timestamp | None = None
    engine: str | None = Field(default=None, max_length=128)
    records_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$", alias="recordsSha256")


class ProfileModel(ApiModel):
    source: str = Field(min_length=1, max_length=1024)
    revision: str | None = Field(default=None, min_length=1, max_length=128)


class ThroughputProfileSpec(ApiModel):
    model: ProfileModel
    hardware_class: str = Field(min_length=1, max_length=63)
    acceptance: Acceptance
    curves: tuple[Curve, ...] = Field(min_length=1, max_length=32)
    provenance: Provenance


class Fit(ApiModel):
    method: FitMethod
    mape: Decimal


class Crossover(ApiModel):
    value: Decimal
    low: Decimal
    high: Decimal
    bound: Bound
    probability_none: Decimal


class ThroughputProfileStatus(ApiModel):
    fit: Fit | None = None
    crossover: Crossover | None = None
    verdict: Verdict | None = None
