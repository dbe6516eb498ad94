"""CEL rules across fields, attached to the model class that holds all the fields they read.

The smallest such class, so that the field path is exact. Rules on one value stand in `field_rules`. Messages name the field.
"""

from collections.abc import Mapping

from .cel import Reason, Rule, value
from .field_rules import FIELD_RULES
from .hardware_class import HardwareClassSpec
from .inference_service import (
    InferenceServiceSpec,
    MtpModeSpec,
    PolicySpec,
    ProfileSpec,
    RolloutSpec,
    SpeculationSpec,
    Targets,
    Thresholds,
    WorkloadSpec,
)
from .model import ModelCache, ModelSpec
from .throughput_profile import Curve, CurvePoint, ProfileFit
from .types import ApiModel

_SPEC = InferenceServiceSpec

# SGLang's candidates for adaptive speculation; an explicit number of steps must be one of them (0 drafts nothing).
_ADAPTIVE_STEPS = "[1, 3, 5, 7]"


def _source_form(name: str, field: str) -> Rule:
    """What the renderer can turn into a model path."""
    path = f"self.{field}"
    form = (
        f"!{path}.split('/').exists(p, p == '..') && ({path}.startsWith('/') || {path}.matches('^s3://[^/]+/.+$')"
        f" || {path}.matches('^hf://[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$'))"
    )
    return Rule(
        name=f"{name}-form",
        expression=form if field == "source" else f"!has({path}) || ({form})",
        message=f"{field} must be hf://ORG/NAME, s3://BUCKET/PATH, or a path below the cache that begins with / and has no '..'",
        field_path=f".{field}",
    )


def _accept_length(name: str) -> Rule:
    """On whatever has an acceptLength."""
    return Rule(
        name=name,
        expression="!has(self.acceptLength) || (double(self.acceptLength) >= 1.0 && double(self.acceptLength) <= 257.0)",
        message="acceptLength must be from 1 (nothing accepted) to 257: it counts the bonus token",
        field_path=".acceptLength",
    )


# On the whole object: only there is metadata.name in sight. By kind.
ROOT_RULES: Mapping[str, tuple[Rule, ...]] = {
    "InferenceService": (
        Rule(
            name="name-length",
            expression="size(self.metadata.name) <= 40",
            message="metadata.name must have at most 40 characters: names of Deployments, Services and labels are made from it",
        ),
        Rule(
            name="name-form",
            expression="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            message="metadata.name must start with a letter and have only a-z, 0-9 and '-': a Service is named after it",
        ),
    ),
    "HardwareClass": (
        Rule(
            name="class-name-form",
            expression="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            message="metadata.name must have at most 63 characters of a-z, 0-9 and '-': spec.hardwareClass and labels carry it",
        ),
    ),
    "ThroughputProfile": (),
}

RULES: Mapping[type[ApiModel], tuple[Rule, ...]] = {
    InferenceServiceSpec: (
        Rule(
            name="pinned-sum",
            expression=f"{value(_SPEC, 'policy.mode')} != 'Pinned' || !self.?policy.?pinned.hasValue()"
            f" || self.policy.pinned.?mtp.orValue(0) + self.policy.pinned.?batch.orValue(0) == self.replicas",
            message="policy.pinned: mtp + batch must equal replicas",
            field_path=".policy.pinned",
        ),
        Rule(
            name="min-replicas-sum",
            expression=f"{value(_SPEC, 'policy.minReplicas.mtp')} + {value(_SPEC, 'policy.minReplicas.batch')} <= self.replicas",
            message="policy.minReplicas: mtp + batch must not exceed replicas",
            field_path=".policy.minReplicas",
        ),
        Rule(
            name="full-within-slots",
            expression="!self.?policy.?thresholds.?fullAtRunningRequests.hasValue()"
            " || self.policy.thresholds.fullAtRunningRequests <= self.modes.mtp.maxRunningRequests",
            message="policy.thresholds.fullAtRunningRequests must not exceed modes.mtp.maxRunningRequests: "
            "a threshold above the slots can never trigger",
            field_path=".policy.thresholds.fullAtRunningRequests",
        ),
        Rule(
            name="request-fits-context",
            expression="!has(self.model.contextLength)"
            f" || {value(_SPEC, 'workload.inputTokens')} + {value(_SPEC, 'workload.outputTokens')} <= self.model.contextLength",
            message="workload: inputTokens + outputTokens (1000 each by default) must fit into model.contextLength",
            field_path=".workload",
        ),
    ),
    ModelSpec: (
        _source_form("source", "source"),
        Rule(
            name="revision-of-hub",
            expression="!has(self.revision) || !(self.source.startsWith('/') || self.source.startsWith('s3://'))",
            message="revision needs a source at the hub (hf://ORG/NAME): a path has no revisions",
            field_path=".revision",
            reason=Reason.FORBIDDEN,
        ),
    ),
    ModelCache: (
        Rule(
            name="cache-exactly-one",
            expression="has(self.persistentVolumeClaim) != has(self.hostPath)",
            message="cache needs exactly one of persistentVolumeClaim and hostPath",
        ),
        Rule(
            name="host-path-no-parents",
            expression="!has(self.hostPath) || !self.hostPath.split('/').exists(p, p == '..')",
            message="hostPath must not contain '..'",
            field_path=".hostPath",
        ),
    ),
    WorkloadSpec: (
        Rule(
            name="context-within-request",
            expression="!has(self.contextTokens)"
            f" || self.contextTokens <= {value(WorkloadSpec, 'inputTokens')} + {value(WorkloadSpec, 'outputTokens')}",
            message="contextTokens must not exceed inputTokens + outputTokens (1000 each by default): it is their mean while decoding",
            field_path=".contextTokens",
        ),
    ),
    Targets: (
        Rule(
            name="targets-not-empty",
            expression="has(self.ttft) || has(self.itl)",
            message="targets needs at least one of ttft and itl",
            reason=Reason.REQUIRED,
        ),
    ),
    SpeculationSpec: (
        Rule(
            name="chain-draft-tokens",
            expression=f"{value(SpeculationSpec, 'eagleTopk')} != 1"
            f" || {value(SpeculationSpec, 'numDraftTokens')} == {value(SpeculationSpec, 'numSteps')} + 1",
            message="numDraftTokens must be numSteps + 1 where eagleTopk is 1 (defaults: eagleTopk 1, numSteps 3, numDraftTokens 4)",
            field_path=".numDraftTokens",
        ),
        Rule(
            name="adaptive-chain-only",
            expression=f"!{value(SpeculationSpec, 'adaptive')} || {value(SpeculationSpec, 'eagleTopk')} == 1",
            message="adaptive needs eagleTopk 1: SGLang silently falls back to static speculation otherwise",
            field_path=".adaptive",
        ),
        _source_form("draft-model", "draftModel"),
        Rule(
            name="eagle3-draft-model",
            expression=f"{value(SpeculationSpec, 'algorithm')} != 'EAGLE3' || has(self.draftModel)",
            message="draftModel is required with algorithm EAGLE3: its draft is a checkpoint of its own",
            field_path=".draftModel",
            reason=Reason.REQUIRED,
        ),
    ),
    MtpModeSpec: (
        Rule(
            name="adaptive-steps",
            expression=f"!{value(MtpModeSpec, 'speculation.adaptive')}"
            f" || {value(MtpModeSpec, 'speculation.numSteps')} in {_ADAPTIVE_STEPS}"
            " || (has(self.extraArgs) && self.extraArgs.exists(a, a.split('=')[0] == '--speculative-adaptive-config'))",
            message="speculation.numSteps must be 1, 3, 5 or 7 with adaptive: SGLang starts from one of its candidates,"
            " unless extraArgs has --speculative-adaptive-config",
            field_path=".speculation.numSteps",
        ),
    ),
    Thresholds: (
        Rule(
            name="thresholds-order",
            expression=f"double({value(Thresholds, 'down')}) < double({value(Thresholds, 'up')})",
            message="down must be below up (defaults: down 0.75, up 0.97): without a gap the mix would flap",
            field_path=".down",
        ),
        Rule(
            name="threshold-reachable",
            expression=f"double({value(Thresholds, 'up')}) <= 1.0",
            message="up must not exceed 1: more than its capacity a replica never serves, so it could never trigger",
            field_path=".up",
        ),
    ),
    PolicySpec: (
        Rule(
            name="pinned-required",
            expression=f"{value(PolicySpec, 'mode')} != 'Pinned' || has(self.pinned)",
            message="pinned is required with mode Pinned",
            field_path=".pinned",
            reason=Reason.REQUIRED,
        ),
        Rule(
            name="pinned-only-with-mode",
            expression=f"{value(PolicySpec, 'mode')} == 'Pinned' || !has(self.pinned)",
            message="pinned needs mode Pinned: nothing else reads it",
            field_path=".pinned",
            reason=Reason.FORBIDDEN,
        ),
        Rule(
            name="pinned-keeps-min-replicas",
            expression="!has(self.pinned)"
            f" || (self.pinned.?mtp.orValue(0) >= {value(PolicySpec, 'minReplicas.mtp')}"
            f" && self.pinned.?batch.orValue(0) >= {value(PolicySpec, 'minReplicas.batch')})",
            message="pinned must not be below minReplicas in either mode",
            field_path=".pinned",
        ),
    ),
    ProfileSpec: (
        Rule(
            name="request-id-required",
            expression=f"{value(ProfileSpec, 'calibration')} != 'Requested' || has(self.requestId)",
            message="requestId is required with calibration Requested: another value measures again",
            field_path=".requestId",
            reason=Reason.REQUIRED,
        ),
        Rule(
            name="request-id-only-requested",
            expression=f"{value(ProfileSpec, 'calibration')} == 'Requested' || !has(self.requestId)",
            message="requestId needs calibration Requested: nothing else reads it",
            field_path=".requestId",
            reason=Reason.FORBIDDEN,
        ),
    ),
    RolloutSpec: (
        Rule(
            name="recreate-allows-downtime",
            expression=f"{value(RolloutSpec, 'strategy')} != 'Recreate' || {value(RolloutSpec, 'allowDowntime')}",
            message="allowDowntime must be true with strategy Recreate: it stops a replica before another is ready",
            field_path=".allowDowntime",
        ),
    ),
    HardwareClassSpec: (
        Rule(
            name="gpus-spread-evenly",
            expression=f"self.gpu.perReplica % {value(HardwareClassSpec, 'nodesPerReplica')} == 0",
            message="gpu.perReplica must be a multiple of nodesPerReplica: every node carries as many",
            field_path=".gpu.perReplica",
        ),
    ),
    CurvePoint: (
        Rule(
            name="throughput-above-zero",
            expression="double(self.outputTokensPerSecond) > 0.0",
            message="outputTokensPerSecond must be above 0",
            field_path=".outputTokensPerSecond",
        ),
        Rule(
            name="per-request-within-total",
            expression="!has(self.perRequestTokensPerSecond)"
            " || (double(self.perRequestTokensPerSecond) > 0.0"
            " && double(self.perRequestTokensPerSecond) <= 1.01 * double(self.outputTokensPerSecond))",
            message="perRequestTokensPerSecond must be above 0 and not exceed outputTokensPerSecond",
            field_path=".perRequestTokensPerSecond",
        ),
        _accept_length("point-accept-length-range"),
    ),
    Curve: (
        Rule(
            name="batch-no-accept-length",
            expression="self.mode != 'batch' || (!has(self.acceptLength) && !self.points.exists(p, has(p.acceptLength)))",
            message="acceptLength has no meaning on a curve of mode batch",
            field_path=".acceptLength",
            reason=Reason.FORBIDDEN,
        ),
        _accept_length("accept-length-range"),
        Rule(
            name="points-rise",
            expression="self.points.map(p, p.concurrency).isSorted()",
            message="points must stand by rising concurrency",
            field_path=".points",
        ),
    ),
    ProfileFit: (
        Rule(
            name="fit-parameters",
            expression="(self.method == 'StepTime') == has(self.parameters) && (!has(self.parameters) || has(self.draftTokens))",
            message="fit: method StepTime needs parameters and draftTokens, method Interpolation must not have parameters",
            field_path=".parameters",
        ),
        Rule(
            name="fit-experts",
            expression="has(self.experts) == has(self.activeExperts) && (!has(self.experts) || self.activeExperts < self.experts)",
            message="fit: experts and activeExperts belong together, and activeExperts must be below experts",
            field_path=".activeExperts",
        ),
    ),
}


def every_rule() -> tuple[Rule, ...]:
    """All rules of all kinds."""
    groups = [*ROOT_RULES.values(), *RULES.values(), *(group for fields in FIELD_RULES.values() for group in fields.values())]
    return tuple(rule for group in groups for rule in group)
