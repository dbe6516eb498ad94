"""The rollout core's view of rendering: digests and slots of the present spec.

A rendering depends on nothing but the service's identity and spec and the class's spec, so it is kept between ticks: a
steady service renders nothing.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from mtpilot.api.inference_service import Mode
from mtpilot.model.calibration import Calibration
from mtpilot.model.names import ANNOTATION_ROLLOUT_STATE
from mtpilot.model.plan import EnsureSecret
from mtpilot.model.slots import RolloutState, Slot, encode_state
from mtpilot.model.snapshot import DEFAULT_IMAGES, GatewayImages, HardwareView, Manifest, Service
from mtpilot.render.arguments import engine_arguments
from mtpilot.render.children import render_children
from mtpilot.render.errors import InvalidArguments
from mtpilot.render.flags_digest import flags_sha256
from mtpilot.render.options import split_options
from mtpilot.render.routing import contention_limit
from mtpilot.render.slot import render_slot, slot_from_template, template_digest

_KEPT = 1024


class _Inputs:
    """What a rendering depends on, compared by value."""

    __slots__ = ("_key", "hardware", "service")

    def __init__(self, service: Service, hardware: HardwareView) -> None:
        self.service = service
        self.hardware = hardware
        self._key = (service.name, service.namespace, service.uid, service.spec.model_dump_json(), hardware.spec.model_dump_json())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Inputs) and self._key == other._key


@lru_cache(maxsize=_KEPT)
def _digest(inputs: _Inputs, mode: Mode) -> str:
    return template_digest(inputs.service, inputs.hardware, mode)


@lru_cache(maxsize=_KEPT)
def _slot(inputs: _Inputs, index: int, mode: Mode) -> Manifest:
    return render_slot(inputs.service, inputs.hardware, index, mode)


@lru_cache(maxsize=_KEPT)
def _children(inputs: _Inputs, limit: int | None, images: GatewayImages) -> tuple[Manifest | EnsureSecret, ...]:
    return render_children(inputs.service, inputs.hardware, limit, images)


@lru_cache(maxsize=_KEPT)
def _flags_sha256(inputs: _Inputs) -> str | None:
    try:
        return flags_sha256(inputs.service.spec, inputs.hardware.spec)
    except InvalidArguments:
        return None


@lru_cache(maxsize=_KEPT)
def _options(inputs: _Inputs, mode: Mode) -> Mapping[str, str | None] | None:
    try:
        args = engine_arguments(inputs.service.spec, inputs.hardware.spec, mode)
    except InvalidArguments:
        return None
    return {option.name: option.value for option in split_options(args, "args")}


def running_options(service: Service, hardware: HardwareView | None, mode: Mode) -> Mapping[str, str | None] | None:
    """Engine arguments of a mode, flag → value (None for a switch); None where nothing valid can be rendered."""
    return _options(_Inputs(service, hardware), mode) if hardware is not None else None


def running_flags(service: Service, hardware: HardwareView | None) -> str | None:
    """Digest of the engine arguments of both modes; None where nothing valid can be rendered."""
    return _flags_sha256(_Inputs(service, hardware)) if hardware is not None else None


class RenderedTemplates:
    """`rollout.context.Templates` for a service and its hardware class.

    Raises:
        InvalidArguments: on construction, where the spec renders no valid engine arguments; nothing is half-applied then.
    """

    def __init__(self, service: Service, hardware: HardwareView) -> None:
        self._inputs = _Inputs(service, hardware)
        self._digests = {mode: _digest(self._inputs, mode) for mode in Mode}

    def digest(self, mode: Mode) -> str:
        return self._digests[mode]

    def manifest(self, index: int, mode: Mode, state: RolloutState) -> Manifest:
        return carry_state(_slot(self._inputs, index, mode), state)

    def revision(self, slot: Slot, digest: str, state: RolloutState) -> Manifest | None:
        for revision in slot.revisions:
            if revision.digest == digest:
                manifest = slot_from_template(self._inputs.service, slot.kind, slot.index, revision.mode, revision.template)
                return carry_state(manifest, state)
        return None

    def children(
        self, calibration: Calibration | None = None, images: GatewayImages = DEFAULT_IMAGES
    ) -> tuple[Manifest | EnsureSecret, ...]:
        """Everything the service owns beside its slots; the calibration says how the gateway shares the load among the modes."""
        return _children(self._inputs, contention_limit(self._inputs.service.spec, calibration), images)


def carry_state(manifest: Manifest, state: RolloutState) -> Manifest:
    """The manifest with the rollout state annotation, so that template and state change in one write."""
    metadata: dict[str, Any] = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), ANNOTATION_ROLLOUT_STATE: encode_state(state)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}
