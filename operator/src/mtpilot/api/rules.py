"""Every CEL rule of the three kinds, attached to the model class or field that it reads.

A rule stands where its field path is exact: on a list item or a scalar where only that is judged, else on the smallest object
that holds all the fields. Messages name the field, since kubectl shows them alone.
"""

from collections.abc import Mapping

from . import flags
from .cel import Reason, Rule, literal, literals, value
from .hardware_class import EngineDefaults, GpuSpec, HardwareClassSpec, StartupSpec
from .inference_service import (
    BatchModeSpec,
    GatewaySpec,
    InferenceServiceSpec,
    ModelCache,
    ModelSpec,
    MtpModeSpec,
    PolicySpec,
    RolloutSpec,
    SpeculationSpec,
    Stabilization,
    Targets,
    Thresholds,
    WorkloadSpec,
)
from .throughput_profile import Curve, CurvePoint
from .types import ApiModel

_SPEC = InferenceServiceSpec

# SGLang's candidates for adaptive speculation; an explicit number of steps must be one of them (0 drafts nothing).
_ADAPTIVE_STEPS = "[1, 3, 5, 7]"


def _between(name: str, least: str, most: str) -> Rule:
    return Rule(
        name=name,
        expression=f"duration(self) >= duration({literal(least)}) && duration(self) <= duration({literal(most)})",
        message=f"{name.removesuffix('-range')} must be a duration from {least} to {most}",
    )


def _above_zero_below_one(name: str) -> Rule:
    return Rule(
        name=name,
        expression="double(self) > 0.0 && double(self) < 1.0",
        message="memFractionStatic must be above 0 and below 1",
    )


def _engine_arguments(where: str, *, mtp: bool) -> tuple[Rule, ...]:
    """Rules for one argument; `where` is the field's name in messages and the suffix of the rules' names."""
    field = where.rsplit(".", 1)[-1]
    rendered = (*flags.RENDERED_FLAGS, *flags.SPECULATION_FLAGS) if mtp else flags.RENDERED_FLAGS
    flag = "self.split('=')[0]"
    dropped = "{" + ", ".join(f"{literal(old)}: {literal(advice)}" for old, advice in flags.DROPPED_FLAGS.items()) + "}"
    rules = [
        Rule(
            name=f"{where}-one-per-item",
            expression=f"!self.startsWith('--') || !{flag}.contains(' ')",
            message=f"{field} takes one argument per item: put the flag and its value into two items, or join them by =",
        ),
        Rule(
            name=f"{where}-dropped-flag",
            expression=f"!({flag} in {literals(flags.DROPPED_FLAGS)})",
            message=f"{field} has a flag that SGLang 0.5.23 dropped: "
            + "; ".join(f"{old}: {advice}" for old, advice in flags.DROPPED_FLAGS.items()),
            message_expression=f"{literal(field + ': SGLang 0.5.23 dropped ')} + {flag} + ': ' + {dropped}[{flag}]",
            reason=Reason.FORBIDDEN,
        ),
        Rule(
            name=f"{where}-rendered-flag",
            expression=f"!self.matches('^--[^=]') || !{literals(rendered)}.exists(f, f.startsWith({flag}))",
            message=f"{field} must not set a flag that mtpilot renders (in full or abbreviated): {', '.join(rendered)}",
            message_expression=f"{literal(field + ': ')} + {flag} + ' is rendered by mtpilot (or abbreviates a flag that is)'",
            reason=Reason.FORBIDDEN,
        ),
    ]
    if not mtp:
        prefix = literal(flags.SPECULATION_PREFIX)
        rules.append(
            Rule(
                name=f"{where}-speculative-flag",
                expression=f"!self.startsWith({prefix}) && !(self.matches('^--[^=]') && {prefix}.startsWith({flag}))",
                message=f"{field} must not set --speculative-* flags: speculation is what makes the mtp mode (modes.mtp)",
                reason=Reason.FORBIDDEN,
            )
        )
    return tuple(rules)


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
        Rule(
            name="source-form",
            expression="!self.source.contains('://') || self.source.startsWith('s3://')"
            " || self.source.matches('^hf://[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$')",
            message="source must be hf://ORG/NAME, s3://BUCKET/PATH or a path below the cache",
            field_path=".source",
        ),
        Rule(
            name="path-needs-cache",
            expression="self.source.contains('://') || has(self.cache)",
            message="source is a path: set cache, which it lies below",
            field_path=".cache",
            reason=Reason.REQUIRED,
        ),
        Rule(
            name="revision-of-hub",
            expression="!has(self.revision) || self.source.startsWith('hf://')",
            message="revision needs a source of the form hf://ORG/NAME: only the hub has revisions",
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
        Rule(
            name="adaptive-steps",
            expression=f"!{value(SpeculationSpec, 'adaptive')} || {value(SpeculationSpec, 'numSteps')} in {_ADAPTIVE_STEPS}",
            message="numSteps must be 1, 3, 5 or 7 with adaptive: SGLang starts from one of its candidates",
            field_path=".numSteps",
        ),
        Rule(
            name="eagle3-draft-model",
            expression=f"{value(SpeculationSpec, 'algorithm')} != 'EAGLE3' || has(self.draftModel)",
            message="draftModel is required with algorithm EAGLE3: its draft is a checkpoint of its own",
            field_path=".draftModel",
            reason=Reason.REQUIRED,
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
    ),
    Curve: (
        Rule(
            name="mtp-accept-length",
            expression="self.mode != 'mtp' || has(self.acceptLength)",
            message="acceptLength is required on a curve of mode mtp: without it the curve cannot be corrected to live acceptance",
            field_path=".acceptLength",
            reason=Reason.REQUIRED,
        ),
        Rule(
            name="batch-no-accept-length",
            expression="self.mode != 'batch' || !has(self.acceptLength)",
            message="acceptLength has no meaning on a curve of mode batch",
            field_path=".acceptLength",
            reason=Reason.FORBIDDEN,
        ),
        Rule(
            name="accept-length-range",
            expression="!has(self.acceptLength) || (double(self.acceptLength) >= 1.0 && double(self.acceptLength) <= 257.0)",
            message="acceptLength must be from 1 (nothing accepted) to 257: it counts the bonus token",
            field_path=".acceptLength",
        ),
        Rule(
            name="points-rise",
            expression="self.points.map(p, p.concurrency).isSorted()",
            message="points must stand by rising concurrency",
            field_path=".points",
        ),
    ),
}

# On a scalar field, or on each item of a list field.
FIELD_RULES: Mapping[type[ApiModel], Mapping[str, tuple[Rule, ...]]] = {
    Targets: {"ttft": (_between("ttft-range", "1ms", "1h"),), "itl": (_between("itl-range", "1ms", "1m"),)},
    Stabilization: {
        "up": (_between("stabilization.up-range", "0s", "1h"),),
        "down": (_between("stabilization.down-range", "0s", "1h"),),
    },
    PolicySpec: {"min_dwell": (_between("minDwell-range", "0s", "24h"),)},
    RolloutSpec: {
        "drain_timeout": (_between("drainTimeout-range", "1s", "24h"),),
        "ready_timeout": (_between("readyTimeout-range", "1s", "24h"),),
    },
    GatewaySpec: {"queue_timeout": (_between("queueTimeout-range", "1s", "1h"),)},
    BatchModeSpec: {
        "mem_fraction_static": (_above_zero_below_one("batch-mem-fraction"),),
        "extra_args": _engine_arguments("batch.extraArgs", mtp=False),
    },
    MtpModeSpec: {
        "mem_fraction_static": (_above_zero_below_one("mtp-mem-fraction"),),
        "extra_args": _engine_arguments("mtp.extraArgs", mtp=True),
    },
    StartupSpec: {"expected": (_between("startup.expected-range", "1s", "24h"),)},
    GpuSpec: {
        "memory": (
            Rule(
                name="gpu-memory-unit",
                expression="quantity(self).compareTo(quantity('1Gi')) >= 0",
                message="memory must be at least 1Gi: it is the memory of one GPU, with its unit, like 96Gi",
            ),
        )
    },
    EngineDefaults: {"args": _engine_arguments("engine.args", mtp=False)},
    HardwareClassSpec: {
        "tolerations": (
            Rule(
                name="toleration-exists-no-value",
                expression="self.?operator.orValue('Equal') != 'Exists' || self.?value.orValue('') == ''",
                message="tolerations: value must be empty with operator Exists",
                field_path=".value",
            ),
            Rule(
                name="toleration-key",
                expression="self.?key.orValue('') != '' || self.?operator.orValue('Equal') == 'Exists'",
                message="tolerations: an empty key needs operator Exists",
                field_path=".operator",
            ),
            Rule(
                name="toleration-seconds",
                expression="!has(self.tolerationSeconds) || self.?effect.orValue('') == 'NoExecute'",
                message="tolerations: tolerationSeconds needs effect NoExecute",
                field_path=".effect",
            ),
        )
    },
}
