"""ThroughputProfile: measured curves of one model on one hardware class.

Numbers are strings as they were measured, with their provenance beside them, so that a decision can be traced to a record.
"""

from enum import StrEnum

from pydantic import Field

from .conditions import BaseCondition
from .inference_service import Mode
from .types import DNS_LABEL_PATTERN, ApiModel, Decimal, Fraction, Sha256, SignedDecimal, Timestamp


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
    """What makes the other mode the better one above the crossover."""

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
    accept_length: Decimal | None = Field(default=None, description="Accept length at this level, where it was recorded; mtp only")


class Curve(ApiModel):
    """Throughput against concurrency, for one mode and context length."""

    mode: Mode = Field(description="Mode of the replica")
    context_tokens: int = Field(ge=1, le=16_777_216, description="Mean context while decoding")
    slots: int = Field(ge=1, le=65_536, description="Effective max running requests of the replica")
    accept_length: Decimal | None = Field(
        default=None,
        description="Mean tokens per verification step, with the bonus token: 1 accepts nothing; mtp only. "
        "Without it the curve cannot follow the live acceptance",
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
    flags_sha256: Sha256 | None = Field(default=None, alias="flagsSha256", description="Digest of the engine arguments of both modes")
    records_sha256: Sha256 | None = Field(default=None, alias="recordsSha256", description="Digest of the raw records")


class ProfileModel(ApiModel):
    """The model that was measured."""

    source: str = Field(min_length=1, max_length=1024, description="As in the InferenceService's model.source")
    revision: str | None = Field(default=None, min_length=1, max_length=128, description="Revision; without one any revision matches")


class StepTimeParameters(ApiModel):
    """Milliseconds of one step, and where they go (docs/profiles.md, "The step-time model")."""

    step_milliseconds: Decimal = Field(description="a: what every step costs")
    token_milliseconds: Decimal = Field(description="b: for each token that is decoded or verified")
    experts_milliseconds: Decimal | None = Field(default=None, description="w: for reading all experts; a step reads a share of them")
    context_nanoseconds: Decimal | None = Field(default=None, description="kv: for each token of context of each request in batch mode")
    mtp_context_nanoseconds: Decimal | None = Field(default=None, description="The same in mtp mode, draft layers included")
    draft_milliseconds: SignedDecimal = Field(description="d0: what drafting adds to every step")
    draft_request_milliseconds: SignedDecimal = Field(description="d1: what drafting adds for each request")


class ProfileFit(ApiModel):
    """How `mtpilot profile fit` joined the points; not for writing by hand."""

    method: FitMethod = Field(description="How the curve between the points was had")
    mape: Decimal = Field(description="Mean absolute error as a share, of the worse mode")
    noise: Fraction = Field(description="Relative standard error of one point")
    mtp_error: Fraction = Field(description="Relative standard error of the mtp curve")
    batch_error: Fraction = Field(description="Relative standard error of the batch curve")
    points_sha256: Sha256 = Field(
        alias="pointsSha256", description="Digest of the curves that it was made from; with others it does not count"
    )
    draft_tokens: int | None = Field(
        default=None, ge=1, le=256, description="Tokens drafted for each request and step; one more than these is verified"
    )
    experts: int | None = Field(default=None, ge=2, le=65_536, description="Routed experts of a layer, where the model has some")
    active_experts: int | None = Field(default=None, ge=1, le=65_536, description="Routed experts that a token uses")
    assumed_accept_length: Decimal | None = Field(
        default=None, description="Accept length that the parameters were made with where none was measured; says nothing about acceptance"
    )
    parameters: StepTimeParameters | None = Field(default=None, description="With method StepTime")


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
    fit: ProfileFit | None = Field(default=None, description="What joins the points; without it a power law from each to the next")


class Fit(ApiModel):
    """How well the curves meet the points."""

    method: FitMethod = Field(description="How the curve between the points was had")
    mape: Decimal = Field(description="Mean absolute error as a share, of the worse mode")


class Crossover(ApiModel):
    """The concurrency at which the better mode changes, with its uncertainty."""

    value: Decimal | None = Field(default=None, description="Requests in flight at one replica; absent where one mode is better everywhere")
    low: Decimal | None = Field(default=None, description="Lower end of the 90 % interval")
    high: Decimal | None = Field(default=None, description="Upper end of the 90 % interval")
    above: Mode | None = Field(default=None, description="The better mode above it")
    bound: Bound | None = Field(
        default=None, description="Slots: the other mode has no more of them there. Compute: it is slower at equal requests in flight"
    )
    probability_none: Fraction = Field(description="Share of the draws without a crossover")


class ContextStatus(ApiModel):
    """What the curves of one context length say."""

    context_tokens: int = Field(ge=1, le=16_777_216, description="Mean context while decoding")
    verdict: Verdict = Field(description="What the curves say about flipping")
    crossover: Crossover = Field(description="Where the better mode changes")


class ProfileConditionType(StrEnum):
    """What can be said of a profile as a whole."""

    VALID = "Valid"


class ProfileCondition(BaseCondition):
    """A condition of a profile."""

    type: ProfileConditionType = Field(description="What is said")


class ThroughputProfileStatus(ApiModel):
    """What the operator reads from the curves."""

    observed_generation: int = Field(default=0, ge=0, description="Generation of the spec that this is said of")
    fit: Fit | None = Field(default=None, description="How well the curves meet the points")
    crossover: Crossover | None = Field(default=None, description="Where the better mode changes, at the shortest context")
    verdict: Verdict | None = Field(default=None, description="What the curves say about flipping, over all contexts")
    message: str | None = Field(default=None, max_length=1024, description="The same in words, and what to mind")
    contexts: tuple[ContextStatus, ...] = Field(
        default=(),
        max_length=16,
        description="Each context length by itself",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["contextTokens"]},
    )
    conditions: tuple[ProfileCondition, ...] = Field(
        default=(),
        max_length=8,
        description="Valid: services can be decided by it",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
