"""ThroughputProfile: measured curves of one model on one hardware class.

Numbers are strings as they were measured, with their provenance beside them, so that a decision can be traced to a record.
"""

from enum import StrEnum

from pydantic import Field

from .inference_service import Mode
from .types import DNS_LABEL_PATTERN, ApiModel, Decimal, Timestamp


class Acceptance(StrEnum):
    """How the accept length of the measurement was had (policy.md, "Curves")."""

    NATURAL = "Natural"
    SEMI_SYNTHETIC = "SemiSynthetic"
    SYNTHETIC = "Synthetic"


class Verdict(StrEnum):
    """What the curves say about flipping."""

    FLIP = "Flip"
    MTP_ONLY = "MtpOnly"
    BATCH_ONLY = "BatchOnly"


class Bound(StrEnum):
    """What makes batch the better mode above the crossover."""

    SLOTS = "Slots"
    COMPUTE = "Compute"


class FitMethod(StrEnum):
    """How the curve between the points was had."""

    STEP_TIME = "StepTime"
    INTERPOLATION = "Interpolation"


class CurvePoint(ApiModel):
    """One measured level of concurrency."""

    concurrency: int = Field(ge=1, le=65_536, description="Requests in flight at one replica")
    output_tokens_per_second: Decimal = Field(description="Output tokens per second of the replica")
    per_request_tokens_per_second: Decimal | None = Field(default=None, description="Output tokens per second of one request")


class Curve(ApiModel):
    """Throughput against concurrency, for one mode and context length."""

    mode: Mode = Field(description="Mode of the replica")
    context_tokens: int = Field(ge=1, le=16_777_216, description="Mean context while decoding")
    slots: int = Field(ge=1, le=65_536, description="Effective max running requests of the replica")
    accept_length: Decimal | None = Field(
        default=None, description="Mean tokens per verification step, with the bonus token: 1 accepts nothing; mtp only"
    )
    points: tuple[CurvePoint, ...] = Field(
        min_length=1,
        max_length=64,
        description="Measured points, by rising concurrency",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["concurrency"]},
    )


class Provenance(ApiModel):
    """Where the numbers come from."""

    source: str = Field(min_length=1, max_length=1024, description="Run, report or file")
    measured_at: Timestamp | None = Field(default=None, description="When it was measured")
    engine: str | None = Field(default=None, max_length=128, description="Engine and version")
    records_sha256: str | None = Field(
        default=None, pattern=r"^[0-9a-f]{64}$", max_length=64, alias="recordsSha256", description="Digest of the raw records"
    )


class ProfileModel(ApiModel):
    """The model that was measured."""

    source: str = Field(min_length=1, max_length=1024, description="As in the InferenceService's model.source")
    revision: str | None = Field(default=None, min_length=1, max_length=128, description="Revision; without one any revision matches")


class ThroughputProfileSpec(ApiModel):
    """Measured curves and where they come from."""

    model: ProfileModel = Field(description="The model that was measured")
    hardware_class: str = Field(min_length=1, max_length=63, pattern=DNS_LABEL_PATTERN, description="Name of the HardwareClass")
    acceptance: Acceptance = Field(description="How the accept length of the measurement was had")
    curves: tuple[Curve, ...] = Field(
        min_length=1,
        max_length=32,
        description="One curve for each mode and context length",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["mode", "contextTokens"]},
    )
    provenance: Provenance = Field(description="Where the numbers come from")


class Fit(ApiModel):
    """How well the fitted curve meets the points."""

    method: FitMethod = Field(description="How the curve between the points was had")
    mape: Decimal = Field(description="Mean absolute error as a share")


class Crossover(ApiModel):
    """The concurrency above which batch gives more tokens, with its uncertainty."""

    value: Decimal = Field(description="Concurrency of one replica")
    low: Decimal = Field(description="Lower end of the bootstrap interval")
    high: Decimal = Field(description="Upper end of the bootstrap interval")
    bound: Bound = Field(description="What makes batch the better mode above it")
    probability_none: Decimal = Field(description="Share of the bootstrap draws without a crossover")


class ThroughputProfileStatus(ApiModel):
    """What the operator reads from the curves."""

    fit: Fit | None = Field(default=None, description="How well the fitted curve meets the points")
    crossover: Crossover | None = Field(default=None, description="Where batch becomes the better mode")
    verdict: Verdict | None = Field(default=None, description="What the curves say about flipping")
