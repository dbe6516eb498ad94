"""One mode of one model on one kind of GPU: from the config to the number of requests that can run at once."""

from dataclasses import dataclass

from mtpilot.api.inference_service import Mode

from .errors import DoesNotFit, NotCovered
from .kv_cell import KvCell, kv_cell
from .launch import ADAPTIVE_MOST_DRAFT_TOKENS, Launch
from .limits import Slots, resolve_slots
from .memory import Gpu, mem_fraction, rest_bytes
from .quantity import size
from .shape import ModelShape
from .state_slots import StatePool, state_pool
from .weights import Weights, check_tensor_parallel, count_weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is the same in both modes.

    Attributes:
        input_tokens, output_tokens: of the usual request.
        weights_bytes, draft_weights_bytes: measured bytes on one GPU, which go before the count.
        draft_layers: layers of a separate draft model.
    """

    shape: ModelShape
    gpu: Gpu
    input_tokens: int = 1000
    output_tokens: int = 1000
    weights_bytes: float | None = None
    draft_weights_bytes: float | None = None
    draft_layers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeCapacity:
    """One mode's memory on one GPU, in bytes, and its slots. `weights.draft` is 0 without speculation."""

    mode: Mode
    launch: Launch
    weights: Weights
    mem_fraction: float
    rest_bytes: float
    cell: KvCell
    kv_tokens: int
    request_tokens: int
    states: StatePool | None
    slots: Slots
    notes: tuple[str, ...] = ()


def estimate(subject: Subject, launch: Launch) -> ModeCapacity:
    """Follow SGLang's own order: weights, static share, states, KV tokens, running requests.

    Raises:
        NotCovered: model or arguments are outside the formulas, or a separate draft is not described.
        DoesNotFit: the engine would stop at its start.
    """
    shape = subject.shape
    check_tensor_parallel(shape, launch.tp_size)
    draft_layers = _draft_layers(subject, launch)
    weights = _weights(subject, launch)
    rest = rest_bytes(shape, launch, subject.gpu, weights.target + weights.draft)
    states = state_pool(shape.linear, launch, rest) if shape.linear is not None else None
    cell = kv_cell(shape, launch, draft_layers=draft_layers)
    kv_tokens = _kv_tokens(launch, rest - (states.states_bytes + states.drafts_bytes if states is not None else 0), cell)
    request_tokens = subject.input_tokens + subject.output_tokens
    request_tokens += launch.speculation.reserved_tokens if launch.speculation is not None else 0
    context_length = launch.context_length or shape.context_length
    slots = resolve_slots(launch, kv_tokens=kv_tokens, context_length=context_length, request_tokens=request_tokens, states=states)
    if slots.usable < 1:
        raise DoesNotFit(f"not one request of {request_tokens} tokens fits: {kv_tokens} KV tokens, {slots.engine} slots")
    return ModeCapacity(
        mode=Mode.BATCH if launch.speculation is None else Mode.MTP,
        launch=launch,
        weights=weights,
        mem_fraction=mem_fraction(shape, launch, subject.gpu),
        rest_bytes=rest,
        cell=cell,
        kv_tokens=kv_tokens,
        request_tokens=request_tokens,
        states=states,
        slots=slots,
        notes=_notes(launch, cell, kv_tokens, states, slots),
    )


def _kv_tokens(launch: Launch, available_bytes: float, cell: KvCell) -> int:
    """`max_total_num_tokens`: bytes // cell, whole pages, at most --max-total-tokens.

    Source: `model_executor/pool_configurator.py: calculate_pool_sizes`, `mem_cache/kv_cache_configurator.py:
    _apply_token_constraints`.
    """
    tokens = int(available_bytes // cell.counted)
    if launch.max_total_tokens is not None:
        tokens = min(tokens, launch.max_total_tokens)
    tokens = tokens // launch.page_size * launch.page_size
    if tokens <= 0:
        raise DoesNotFit(f"no memory for KV cache: {size(max(available_bytes, 0))} left, {cell.counted} bytes a token")
    return tokens


def _draft_layers(subject: Subject, launch: Launch) -> int:
    if launch.speculation is None:
        return 0
    if subject.draft_layers is not None:
        return subject.draft_layers
    if subject.shape.bundled_draft_layers:
        return subject.shape.bundled_draft_layers
    raise NotCovered(
        "--speculative-draft-model-path",
        f"{subject.shape.architecture} has no MTP layer of its own: say how many layers the draft has, and its weights",
    )


def _weights(subject: Subject, launch: Launch) -> Weights:
    target, draft = subject.weights_bytes, subject.draft_weights_bytes
    speculates = launch.speculation is not None
    separate = speculates and subject.draft_layers is not None
    if separate and draft is None:
        raise NotCovered("--speculative-draft-model-path", "the weights of a separate draft cannot be counted: give their bytes on a GPU")
    if target is None or (speculates and draft is None):
        counted = count_weights(subject.shape, launch.tp_size)
        target = counted.target if target is None else target
        draft = counted.draft if draft is None else draft
    return Weights(target=target, draft=(draft or 0.0) if speculates else 0.0)


def _notes(launch: Launch, cell: KvCell, kv_tokens: int, states: StatePool | None, slots: Slots) -> tuple[str, ...]:
    notes = []
    if cell.uncounted:
        notes.append(
            f"SGLang leaves the draft's KV cache out of its sum: {size(cell.uncounted * kv_tokens)} come out of the headroom; "
            "--speculative-draft-model-path with the model's own path makes it count"
        )
    speculation = launch.speculation
    if speculation is not None and speculation.adaptive and not speculation.own_table and states is not None:
        more = ADAPTIVE_MOST_DRAFT_TOKENS - speculation.num_draft_tokens
        if more > 0:
            missing = states.slot_bytes * (slots.engine + 1) * more
            most, counted = ADAPTIVE_MOST_DRAFT_TOKENS, speculation.num_draft_tokens
            notes.append(
                f"adaptive speculation allocates states for {most} draft tokens, SGLang's sum has {counted}: {size(missing)} come out of "
                "the headroom; a table without more steps than numSteps avoids it"
            )
    return tuple(notes)
