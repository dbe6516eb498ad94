"""Capacity, whatever the model and the arguments: more memory is never fewer slots, and the parts fit the whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mtpilot.capacity.compare import first_remedy
from mtpilot.capacity.errors import DoesNotFit
from mtpilot.capacity.estimate import ModeCapacity, Subject, estimate
from mtpilot.capacity.launch import Launch, Speculation
from mtpilot.capacity.memory import Gpu
from mtpilot.capacity.quantity import GIB
from tests.examples import examples
from tests.unit.capacity.samples import shape

MODELS = ("llama-3.1-8b", "qwen3-next-80b-a3b", "qwen3.5-27b", "qwen3.5-122b-a10b", "deepseek-v3")
BUNDLED = MODELS[1:]
SPECULATIONS = st.builds(
    lambda steps, path: Speculation(num_steps=steps, num_draft_tokens=steps + 1, draft_path=path), st.integers(1, 7), st.booleans()
)
LAUNCHES = st.builds(
    Launch,
    tp_size=st.sampled_from((4, 8)),
    max_running_requests=st.none() | st.integers(1, 512),
    mem_fraction_static=st.none() | st.floats(0.5, 0.95),
    mamba_ssm_dtype=st.sampled_from((None, "bfloat16")),
    mamba_radix_cache_strategy=st.sampled_from(("auto", "no_buffer", "extra_buffer_lazy")),
)


def found(model: str, memory_gib: int, launch: Launch, input_tokens: int = 1000) -> ModeCapacity:
    try:
        return estimate(Subject(shape=shape(model), gpu=Gpu(memory_bytes=memory_gib * GIB), input_tokens=input_tokens), launch)
    except DoesNotFit:
        assume(False)
        raise


@examples()
@given(model=st.sampled_from(MODELS), memory=st.integers(64, 288), launch=LAUNCHES, more=st.integers(1, 64))
def test_more_memory_is_never_fewer_slots(model: str, memory: int, launch: Launch, more: int) -> None:
    launch = replace(launch, mem_fraction_static=launch.mem_fraction_static or 0.85)
    assert found(model, memory + more, launch).slots.usable >= found(model, memory, launch).slots.usable


@examples()
@given(model=st.sampled_from(BUNDLED), memory=st.integers(96, 288), launch=LAUNCHES, speculation=SPECULATIONS)
def test_speculation_never_gives_slots_at_equal_arguments(model: str, memory: int, launch: Launch, speculation: Speculation) -> None:
    launch = replace(launch, max_running_requests=launch.max_running_requests or 64)
    mtp = found(model, memory, replace(launch, speculation=speculation))
    assert mtp.slots.usable <= found(model, memory, launch).slots.usable


@examples()
@given(model=st.sampled_from(BUNDLED), memory=st.integers(96, 288), launch=LAUNCHES, speculation=st.none() | SPECULATIONS)
def test_parts_fit_the_budget_and_slots_the_parts(model: str, memory: int, launch: Launch, speculation: Speculation | None) -> None:
    mode = found(model, memory, replace(launch, speculation=speculation))
    states = mode.states.states_bytes + mode.states.drafts_bytes if mode.states is not None else 0
    assert states + mode.kv_tokens * mode.cell.counted <= mode.rest_bytes
    assert 1 <= mode.slots.usable <= mode.slots.engine
    assert mode.slots.usable * mode.request_tokens <= mode.kv_tokens
    if mode.states is not None:
        assert mode.slots.engine * mode.states.per_request <= mode.states.slots
    if mode.launch.requested_slots is not None:
        assert mode.slots.engine <= mode.launch.requested_slots


@examples()
@given(model=st.sampled_from(BUNDLED), memory=st.integers(96, 288), launch=LAUNCHES, speculation=SPECULATIONS)
def test_a_remedy_gives_what_it_says(model: str, memory: int, launch: Launch, speculation: Speculation) -> None:
    mode = found(model, memory, replace(launch, speculation=speculation))
    advice = first_remedy(Subject(shape=shape(model), gpu=Gpu(memory_bytes=memory * GIB)), mode)
    if advice is not None:
        assert advice.slots > mode.slots.usable


@examples()
@given(model=st.sampled_from(MODELS), longer=st.integers(0, 20_000))
def test_longer_requests_never_give_slots(model: str, longer: int) -> None:
    launch = Launch(tp_size=8, max_running_requests=256)
    assert found(model, 192, launch, 1000 + longer).slots.usable <= found(model, 192, launch).slots.usable


@pytest.mark.parametrize("model", BUNDLED)
def test_equal_inputs_give_equal_results(model: str) -> None:
    launch = Launch(tp_size=8, speculation=Speculation())
    assert found(model, 192, launch) == found(model, 192, launch)
