"""What the bench leaves out of the wide matrix, beside the plain way."""

from __future__ import annotations

import numpy as np
import pytest

from e2e.bench_policy import cells
from e2e.bench_policy.cells import WIDE, Task, all_pairs, before_of, load_of
from e2e.bench_policy.work import replay
from mtpilot.api.throughput_profile import Verdict
from mtpilot.simulate import catalogue
from mtpilot.simulate.driver import Site, drive

MTP_ONLY = tuple(name for name, pair in all_pairs().items() if catalogue.calibration(name, pair).verdict is Verdict.MTP_ONLY)


def task(load: str, *pairs: str, replicas: int = 2, share: float = 1.1) -> Task:
    return Task(part=WIDE, load=load, replicas=replicas, flip_minutes=1, share=share, pairs=pairs)


@pytest.mark.parametrize("load", ["azure-conv", "azure-code"])
def test_predictive_where_only_mtp_pays_costs_what_driving_it_costs(load: str):
    asked = task(load, *MTP_ONLY)
    assert len(MTP_ONLY) > 10
    for cell in replay(asked):
        pair, arriving = all_pairs()[cell.pair], load_of(asked, cell.pair)
        site = Site(curves=pair, replicas=2, flip_minutes=1, output_tokens=arriving.output_tokens)
        policy = catalogue.policy(catalogue.PREDICTIVE, catalogue.calibration(cell.pair, pair))
        run = drive(site, arriving, policy, before=before_of(asked, cell.pair))
        assert cell.values[catalogue.PREDICTIVE] == pytest.approx(run.request_minutes, rel=1e-9)
        assert cell.flips[catalogue.PREDICTIVE] == run.flips == 0


def test_a_short_trace_comes_again_and_a_long_one_has_the_day_before():
    short, long = task("azure-conv", "qwen3.5-122b"), task("m-large", "qwen3.5-122b")
    again, day = before_of(short, "qwen3.5-122b"), before_of(long, "qwen3.5-122b")
    assert again is not None
    assert day is not None
    assert again.minutes >= cells.BEFORE_MINUTES
    assert np.array_equal(again.values[:20], load_of(short, "qwen3.5-122b").values)
    assert day.minutes == 1440
    assert day.values.mean() == pytest.approx(load_of(long, "qwen3.5-122b").values.mean(), rel=0.5)
