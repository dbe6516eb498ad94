"""The argument list of one SGLang 0.5.23 server.

Slots and static memory are rendered in both modes, always: with speculation on and no explicit limit SGLang stops at 48
requests, and its memory default moves with that limit, so two modes that leave it out cannot be compared. What the operator
sets itself is closed to free arguments, so that no pod runs with other slots, labels or keys than the plan believes.
"""

import re
from collections.abc import Mapping, Sequence

from mtpilot.api.flags import SPECULATION_PREFIX, closed_flag
from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import BatchModeSpec, InferenceServiceSpec, Mode, SpeculationSpec
from mtpilot.model.names import ENGINE_PORT

from .digest import canonical_json
from .environment import (
    ADMIN_KEY_VARIABLE,
    LEADER_ADDRESS_VARIABLE,
    POD_IP_VARIABLE,
    POD_UID_VARIABLE,
    WORKER_INDEX_VARIABLE,
    reference,
)
from .errors import InvalidArguments
from .known_flags import SGLANG_VERSION
from .model_source import resolve_source, served_name
from .options import Option, check_options, split_options

RENDEZVOUS_PORT = 20000  # of rank 0; SGLang takes its neighbours too, up to some forty above it
MODE_METRIC_LABEL = "mode"
POD_UID_METRIC_LABEL = "pod_uid"  # metrics are joined with the live pods by it

_CLASS_FIELD = "HardwareClass spec.engine.args"
_NO_KEY = "unsupported: the gateway, the operator and Prometheus call the engine without a key"
_SEVERAL_NODES = "rendered where HardwareClass spec.nodesPerReplica is above 1"

MANAGED_FLAGS: Mapping[str, str] = {
    "--model-path": "set spec.model.source",
    "--revision": "set spec.model.revision",
    "--served-model-name": "set spec.model.servedName",
    "--context-length": "set spec.model.contextLength",
    "--host": "the pod's own address is rendered",
    "--port": "the engine port is fixed",
    "--max-running-requests": "set spec.modes.*.maxRunningRequests",
    "--mem-fraction-static": "set spec.modes.*.memFractionStatic",
    "--enable-metrics": "always rendered",
    "--extra-metric-labels": "rendered, to join metrics with pods",
    "--admin-api-key": "rendered from the generated Secret",
    "--api-key": _NO_KEY,
    "--config": "unsupported: a file would hide flags from the operator",
    "--nnodes": "set HardwareClass spec.nodesPerReplica",
    "--node-rank": _SEVERAL_NODES,
    "--dist-init-addr": _SEVERAL_NODES,
    "--speculative-algorithm": "set spec.modes.mtp.speculation.algorithm",
    "--speculative-num-steps": "set spec.modes.mtp.speculation.numSteps",
    "--speculative-eagle-topk": "set spec.modes.mtp.speculation.eagleTopk",
    "--speculative-num-draft-tokens": "set spec.modes.mtp.speculation.numDraftTokens",
    "--speculative-draft-model-path": "set spec.modes.mtp.speculation.draftModel",
    "--speculative-adaptive": "set spec.modes.mtp.speculation.adaptive",
}
"""Flags that are not free, by their first spelling, and what to do instead; the names are those of api/flags.py."""

# NB: with its default table SGLang asserts at start that the launch steps are one of the table's candidates.
_ADAPTIVE_DEFAULT_STEPS = (1, 3, 5, 7)
_ADAPTIVE_CONFIG = "--speculative-adaptive-config"
_KNOWN_IMAGE = re.compile(rf":v?{re.escape(SGLANG_VERSION)}(?![0-9.])")


def engine_image(spec: InferenceServiceSpec, hardware: HardwareClassSpec) -> str:
    """The service's image, or else its hardware class's."""
    return spec.engine.image or hardware.engine.image


def engine_arguments(spec: InferenceServiceSpec, hardware: HardwareClassSpec, mode: Mode) -> list[str]:
    """The complete argument list of `python3 -m sglang.launch_server` in a mode, with `$(VAR)` for Kubernetes to fill in.

    A mode's extra argument replaces the same flag of the hardware class.

    Raises:
        InvalidArguments: a class or extra argument was dropped, is unknown to this release, is given twice, or is one that
            the spec sets by a field; or the model source is malformed.
    """
    strict = _KNOWN_IMAGE.search(engine_image(spec, hardware)) is not None
    extra_field = f"spec.modes.{mode.value}.extraArgs"
    extra = _free_options(_mode(spec, mode).extra_args, extra_field, strict=strict)
    if mode is Mode.BATCH:
        _refuse_speculation(extra, extra_field)
    replaced = {option.name for option in extra}
    from_class = [option for option in _free_options(hardware.engine.args, _CLASS_FIELD, strict=strict) if option.name not in replaced]
    speculation = _speculation(spec.modes.mtp.speculation, replaced, cached=spec.model.cache is not None) if mode is Mode.MTP else []
    args = [
        *_server(spec),
        *_nodes(hardware),
        *_words(from_class),
        *_limits(spec, mode),
        *speculation,
        *_observation(mode),
        *_words(extra),
    ]
    check_arguments(args, strict=strict)
    return args


def check_arguments(args: Sequence[str], *, field: str = "args", strict: bool = True) -> None:
    """Refuse what CEL cannot see in an argument list: dropped or unknown names, flags given twice, wrong numbers of values.

    Raises:
        InvalidArguments: names the first offender as `field[index]`.
    """
    check_options(split_options(args, field), field, strict=strict)


def _mode(spec: InferenceServiceSpec, mode: Mode) -> BatchModeSpec:
    return spec.modes.mtp if mode is Mode.MTP else spec.modes.batch


def _words(options: Sequence[Option]) -> list[str]:
    return [word for option in options for word in option.words]


def _free_options(args: Sequence[str], field: str, *, strict: bool) -> tuple[Option, ...]:
    options = split_options(args, field)
    check_options(options, field, strict=strict)
    for option in options:
        managed = closed_flag(option.name, MANAGED_FLAGS)
        if managed is not None:
            raise InvalidArguments(f"{field}[{option.index}]", f"{option.flag} is not free: {MANAGED_FLAGS[managed]}")
    return options


def _refuse_speculation(options: Sequence[Option], field: str) -> None:
    for option in options:
        if option.name.startswith(SPECULATION_PREFIX):
            raise InvalidArguments(
                f"{field}[{option.index}]", f"{option.flag}: batch mode runs without speculation; set it in spec.modes.mtp"
            )


def _server(spec: InferenceServiceSpec) -> list[str]:
    model = spec.model
    args = ["--model-path", resolve_source(model.source, cached=model.cache is not None, field="spec.model.source")]
    if model.revision is not None:
        args += ["--revision", model.revision]
    args += ["--served-model-name", served_name(model), "--host", reference(POD_IP_VARIABLE), "--port", str(ENGINE_PORT)]
    if model.context_length is not None:
        args += ["--context-length", str(model.context_length)]
    return args


def _nodes(hardware: HardwareClassSpec) -> list[str]:
    """The same words on every node: LeaderWorkerSet says in the environment which rank a pod has and where rank 0 is."""
    if hardware.nodes_per_replica == 1:
        return []
    leader = f"{reference(LEADER_ADDRESS_VARIABLE)}:{RENDEZVOUS_PORT}"
    return ["--nnodes", str(hardware.nodes_per_replica), "--node-rank", reference(WORKER_INDEX_VARIABLE), "--dist-init-addr", leader]


def _limits(spec: InferenceServiceSpec, mode: Mode) -> list[str]:
    limits = _mode(spec, mode)
    return ["--max-running-requests", str(limits.max_running_requests), "--mem-fraction-static", limits.mem_fraction_static]


def _speculation(speculation: SpeculationSpec, extra: set[str], *, cached: bool) -> list[str]:
    args = [
        "--speculative-algorithm",
        speculation.algorithm.value,
        "--speculative-num-steps",
        str(speculation.num_steps),
        "--speculative-eagle-topk",
        str(speculation.eagle_topk),
        "--speculative-num-draft-tokens",
        str(speculation.num_draft_tokens),
    ]
    if speculation.draft_model is not None:
        field = "spec.modes.mtp.speculation.draftModel"
        args += ["--speculative-draft-model-path", resolve_source(speculation.draft_model, cached=cached, field=field)]
    if speculation.adaptive:
        if _ADAPTIVE_CONFIG not in extra and speculation.num_steps not in _ADAPTIVE_DEFAULT_STEPS:
            steps = ", ".join(map(str, _ADAPTIVE_DEFAULT_STEPS))
            problem = f"adaptive speculation starts only with {steps} steps, unless extraArgs has {_ADAPTIVE_CONFIG}"
            raise InvalidArguments("spec.modes.mtp.speculation.numSteps", problem)
        args.append("--speculative-adaptive")
    return args


def _observation(mode: Mode) -> list[str]:
    labels = {MODE_METRIC_LABEL: mode.value, POD_UID_METRIC_LABEL: reference(POD_UID_VARIABLE)}
    return ["--enable-metrics", "--extra-metric-labels", canonical_json(labels), "--admin-api-key", reference(ADMIN_KEY_VARIABLE)]
