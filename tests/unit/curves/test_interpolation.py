import numpy as np
import pytest

from mtpilot.curves.interpolation import levels_up_to, power_law


def test_it_meets_its_levels_rises_between_them_and_is_flat_beyond():
    at = np.array([0.5, 1.0, 2.0, 16.0, 30.0, 64.0, 99.0])
    found = power_law((1.0, 16.0, 64.0), (100.0, 800.0, 800.0), at)
    assert found == pytest.approx([50, 100, 100 * 2 ** (np.log(8) / np.log(16)), 800, 800, 800, 800])


@pytest.mark.parametrize("slots", [0.5, 1, 2, 5.5, 16, 17, 24, 117.5, 4096, 65_536])
@pytest.mark.parametrize("keep", [(), (3.0, 20.0, 1e6)])
def test_levels_rise_to_the_slots_and_are_few(slots, keep):
    levels = levels_up_to(slots, keep)
    assert levels[-1] == slots
    assert list(levels) == sorted(set(levels))
    assert {level for level in keep if level <= slots} <= set(levels)
    assert len(levels) <= 64
    assert levels[0] <= 1


def test_every_kept_level_stays_even_when_there_are_many():
    keep = tuple(float(level) for level in range(1, 65))
    assert set(keep) < set(levels_up_to(100, keep))
