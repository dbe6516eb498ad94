"""CEL rules on one scalar field, or on each item of a list: durations, shares, engine arguments, tolerations.

A rule that reads one value stands on that value, so that the API server's message carries the exact path and index.
"""

from collections.abc import Mapping

from . import flags
from .cel import Reason, Rule, literal, literals
from .engine import EnvVar
from .gateway import GatewaySpec
from .hardware_class import EngineDefaults, GpuSpec, HardwareClassSpec, StartupSpec
from .inference_service import (
    BatchModeSpec,
    MtpModeSpec,
    PolicySpec,
    RolloutSpec,
    Stabilization,
    Targets,
)
from .types import DURATION_PATTERN, ApiModel

# The renderer fills these in; its own list is held equal by a test.
RESERVED_VARIABLES = ("MTPILOT_ADMIN_API_KEY", "POD_IP", "POD_NAME", "POD_UID")


def _between(name: str, least: str, most: str) -> Rule:
    """Form and range in one rule, so that a wrong duration has one message, and no text meets CEL's own conversion."""
    form = f"self != '' && self.matches({literal(DURATION_PATTERN)})"
    return Rule(
        name=name,
        expression=f"{form} && duration(self) >= duration({literal(least)}) && duration(self) <= duration({literal(most)})",
        message=f"{name.removesuffix('-range')} must be a duration from {least} to {most}, like 250ms, 90s or 1h30m",
        tells_form=True,
    )


def _above_zero_below_one(name: str) -> Rule:
    return Rule(
        name=name,
        expression="double(self) > 0.0 && double(self) < 1.0",
        message="memFractionStatic must be above 0 and below 1",
    )


def _engine_arguments(where: str, *, mtp: bool) -> tuple[Rule, ...]:
    """Rules for one argument; `where` is the prefix of the rules' names and ends with the field's name."""
    field = where.rsplit(".", 1)[-1]
    closed = (*flags.RENDERED_FLAGS, *flags.UNSUPPORTED_FLAGS, *(flags.SPECULATION_FLAGS if mtp else ()))
    flag = "self.split('=')[0]"
    instead = "{" + ", ".join(f"{literal(old)}: {literal(new)}" for old, new in flags.DROPPED_FLAGS.items()) + "}"
    rules = [
        Rule(
            name=f"{where}-one-per-item",
            expression=f"!self.startsWith('--') || !{flag}.contains(' ')",
            message=f"{field} takes one argument per item: put the flag and its value into two items, or join them by =",
        ),
        Rule(
            name=f"{where}-dropped-flag",
            expression=f"!({flag} in {literals(flags.DROPPED_FLAGS)})",
            message=f"{field} has a flag that SGLang 0.5.23 dropped",
            message_expression=f"{literal(field + ': SGLang 0.5.23 dropped ')} + {flag} + '; use ' + {instead}[{flag}]",
            reason=Reason.FORBIDDEN,
        ),
        Rule(
            name=f"{where}-closed-flag",
            expression=f"!self.matches('^--[^=]') || !{literals(closed)}.exists(f, f.startsWith({flag}))",
            message=f"{field} has a flag, in full or abbreviated, that mtpilot sets itself or cannot bear",
            message_expression=f"{literal(field + ': ')} + {flag} + ' is or abbreviates a flag that mtpilot sets itself or cannot bear'",
            reason=Reason.FORBIDDEN,
        ),
    ]
    if not mtp:
        prefix = literal(flags.SPECULATION_PREFIX)
        rules.append(
            Rule(
                name=f"{where}-speculative-flag",
                expression=f"{flag} in {literals(flags.DROPPED_FLAGS)}"
                f" || (!self.startsWith({prefix}) && !(self.matches('^--[^=]') && {prefix}.startsWith({flag})))",
                message=f"{field} must not have --speculative-* flags: speculation belongs to modes.mtp",
                reason=Reason.FORBIDDEN,
            )
        )
    return tuple(rules)


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
    EnvVar: {
        "name": (
            Rule(
                name="env-reserved",
                expression=f"!(self in {literals(RESERVED_VARIABLES)})",
                message=f"env must not set {', '.join(RESERVED_VARIABLES)}: the rendered arguments refer to them",
                reason=Reason.FORBIDDEN,
            ),
        )
    },
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
