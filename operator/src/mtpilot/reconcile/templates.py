"""The rollout core's view of rendering: digests and Deployments of the present spec, each rendered once a tick."""

from copy import deepcopy

from mtpilot.api.inference_service import Mode
from mtpilot.model.names import ANNOTATION_ROLLOUT_STATE
from mtpilot.model.slots import RolloutState, Slot, encode_state
from mtpilot.model.snapshot import HardwareView, Manifest, Service
from mtpilot.render.slot import render_slot, slot_from_template, template_digest


class RenderedTemplates:
    """`rollout.context.Templates` for a service and its hardware class.

    Raises:
        InvalidArguments: on construction, where the spec renders no valid engine arguments; nothing is half-applied then.
    """

    def __init__(self, service: Service, hardware: HardwareView) -> None:
        self._service = service
        self._hardware = hardware
        self._digests = {mode: template_digest(service, hardware, mode) for mode in Mode}

    def digest(self, mode: Mode) -> str:
        return self._digests[mode]

    def manifest(self, index: int, mode: Mode, state: RolloutState) -> Manifest:
        return carry_state(render_slot(self._service, self._hardware, index, mode), state)

    def revision(self, slot: Slot, digest: str, state: RolloutState) -> Manifest | None:
        for revision in slot.revisions:
            if revision.digest == digest:
                manifest = slot_from_template(self._service, slot.index, revision.mode, revision.template)
                return carry_state(manifest, state)
        return None


def carry_state(manifest: Manifest, state: RolloutState) -> Manifest:
    """The manifest with the rollout state annotation, so that template and state change in one write."""
    result = deepcopy(manifest)
    result["metadata"].setdefault("annotations", {})[ANNOTATION_ROLLOUT_STATE] = encode_state(state)
    return result
