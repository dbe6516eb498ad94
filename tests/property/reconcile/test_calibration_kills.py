"""Kill the operator after any write of a calibration, with load and requests that change: it ends once, and no GPU more is used."""

from functools import cache

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from mtpilot.api.status import CalibrationPhase
from tests.examples import examples
from tests.measured_world import BATCHES, MeasuredWorld
from tests.world import spec

# seconds until the next turn, after how many writes that turn is cut off (None: it is not), and the demand from then on
TURNS = st.lists(
    st.tuples(st.integers(1, 20), st.one_of(st.none(), st.integers(0, 4)), st.sampled_from([600.0, 600.0, 600.0, 3000.0])),
    min_size=1,
    max_size=8,
)
FEW = examples(3, suppress=[HealthCheck.too_slow])


@cache
def serving() -> MeasuredWorld:
    world = MeasuredWorld(spec=spec(replicas=2, profile={"calibration": "Requested", "requestId": "one"}))
    world.run(40)
    world.demand = 600.0
    return world


@FEW
@given(turns=TURNS)
def test_a_calibration_that_is_cut_off_anywhere_ends_once(turns: list[tuple[int, int | None, float]]):
    world = serving().copy()
    for seconds, stop_after, demand in turns:
        world.demand = demand
        for _ in range(seconds):
            world.step()
        world.tick(stop_after)
        assert len(world.pods) <= 2, "the GPU budget"
    world.demand = 600.0
    world.run(400, period=5)
    assert world.status.calibration is not None
    assert world.status.calibration.phase is CalibrationPhase.FINISHED
    assert (world.serving(), world.jobs, len(world.profiles)) == (2, {}, 1)
    assert world.measured_batches == 2 * BATCHES, "nothing is measured twice"
    assert (world.lost, world.disturbed) == (0, [])
    assert all(slot.state is None or (slot.state.calibration, slot.state.home_mode) == (None, None) for slot in world.snapshot().slots)
