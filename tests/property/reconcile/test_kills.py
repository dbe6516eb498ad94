"""Kill the operator after any write, at any time: the same world results, nothing is lost, nothing is decided twice."""

from functools import cache

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from mtpilot.api.inference_service import Mode
from tests.examples import examples
from tests.world import World, hardware, spec

PINNED = spec(policy={"mode": "Pinned", "pinned": {"mtp": 3, "batch": 1}})

# seconds until the next turn, and after how many writes that turn is cut off (None: it is not)
TURNS = st.lists(st.tuples(st.integers(1, 20), st.one_of(st.none(), st.integers(0, 4))), min_size=1, max_size=25)
FEW = examples(10, suppress=[HealthCheck.too_slow])


@cache
def serving(surge: bool = False) -> World:
    world = World(spec=spec(rollout={"strategy": "Surge"}), hardware=hardware(gpus_free=4)) if surge else World()
    world.run(40)
    world.demand = 2500.0
    return world


def started() -> World:
    return serving().copy()


def live(world: World, turns: list[tuple[int, int | None]]) -> None:
    for seconds, stop_after in turns:
        for _ in range(seconds):
            world.step()
        world.tick(stop_after)
        assert len(world.pods) <= 4, "the GPU budget"


@FEW
@given(turns=TURNS)
def test_a_flip_that_is_cut_off_anywhere_ends_once(turns: list[tuple[int, int | None]]):
    world = started()
    world.spec = PINNED
    live(world, turns)
    world.run(200, period=4)
    assert world.modes() == (3, 1)
    assert world.serving() == 4
    assert len([entry for entry in world.status.history if entry.to_mode is Mode.BATCH]) == 1
    assert world.status.history[-1].outcome == "Completed"
    assert world.lost == 0


@FEW
@given(turns=TURNS)
def test_a_rollback_that_is_cut_off_anywhere_ends_in_what_served(turns: list[tuple[int, int | None]]):
    world = started()
    world.broken = lambda digest, mode: mode is Mode.BATCH
    world.spec = PINNED
    world.run(150, period=3)
    live(world, turns)
    world.broken = lambda digest, mode: False
    world.spec = spec()
    world.generation += 1
    world.run(400, period=4)
    assert world.serving() == 4
    assert world.lost == 0
    assert all(slot.state is None or slot.state.replace_started_at is None for slot in world.snapshot().slots)


@FEW
@given(turns=TURNS)
def test_a_deletion_that_is_cut_off_anywhere_leaves_nothing(turns: list[tuple[int, int | None]]):
    world = started()
    world.deleting_since = world.now
    live(world, turns)
    world.run(60, period=2)
    assert world.deployments == {}
    assert world.pods == {}
    assert world.released
    assert world.lost == 0


@FEW
@given(turns=TURNS, replicas=st.integers(0, 4))
def test_scaling_that_is_cut_off_anywhere_ends_at_the_number(turns: list[tuple[int, int | None]], replicas: int):
    world = started()
    world.spec = world.spec.model_copy(update={"replicas": replicas})
    live(world, turns)
    world.run(150, period=3)
    assert len(world.deployments) == replicas
    assert world.serving() == replicas
    assert world.lost == 0


@FEW
@given(turns=TURNS)
def test_a_surge_that_is_cut_off_anywhere_ends_with_the_right_number(turns: list[tuple[int, int | None]]):
    world = serving(surge=True).copy()
    world.spec = spec(rollout={"strategy": "Surge"}, policy={"mode": "Pinned", "pinned": {"mtp": 3, "batch": 1}})
    for seconds, stop_after in turns:
        for _ in range(seconds):
            world.step()
        world.tick(stop_after)
        assert len(world.pods) <= 5
        assert world.serving() >= 3
    world.run(300, period=4)
    assert world.modes() == (3, 1)
    assert world.serving() == 4
    assert world.lost == 0
