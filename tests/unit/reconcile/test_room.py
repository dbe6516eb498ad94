"""Whether the others can do without a replica."""

from dataclasses import replace

import pytest

from mtpilot.calibrate.room import Peers, why_give_back, why_not_take
from mtpilot.model.decision import Demand, NoDemand
from mtpilot.model.reasons import Reason
from tests.world import START

IDLE = Demand(
    at=START,
    replicas=(),
    served_tokens_per_second=100.0,
    demand_tokens_per_second=100.0,
    in_flight=2.0,
    queued=0.0,
    mean_output_tokens=100.0,
    saturated=False,
)
UNKNOWN = NoDemand(reason=Reason.PROMETHEUS_TIMEOUT, message="Prometheus did not answer in time")
PEERS = Peers(serving=1, missing=(), slots=20, running=2, capacity=1000.0)


def test_an_idle_fleet_can_do_without_one():
    assert why_not_take(PEERS, IDLE, 2) is None
    assert why_give_back(PEERS, IDLE, queued_samples=0, replicas=2) is None


@pytest.mark.parametrize(
    ("peers", "demand", "words"),
    [
        (PEERS, UNKNOWN, "the load is not known"),
        (PEERS, replace(IDLE, queued=1.0), "1 requests wait"),
        (PEERS, replace(IDLE, missing=("chat-r0-x",)), "no fresh numbers of chat-r0-x"),
        (PEERS, replace(IDLE, in_flight=11.0), "more than 50% of the 20 slots"),
        (replace(PEERS, running=11), IDLE, "more than 50% of the 20 slots"),
        (replace(PEERS, running=None), IDLE, "an engine does not tell its load"),
        (PEERS, replace(IDLE, demand_tokens_per_second=501.0), "more than 50% of the 1000 tok/s"),
        (replace(PEERS, serving=0, missing=("chat-r0",)), IDLE, "chat-r0 does not serve"),
    ],
)
def test_it_is_not_taken_from_a_fleet_that_may_need_it(peers: Peers, demand: Demand | NoDemand, words: str):
    assert words in (why_not_take(peers, demand, 2) or "")


@pytest.mark.parametrize(
    ("peers", "demand", "queued_samples", "words"),
    [
        (PEERS, replace(IDLE, queued=3.0), 1, None),
        (PEERS, replace(IDLE, queued=3.0), 2, "3 requests wait"),
        (replace(PEERS, running=17), IDLE, 0, None),
        (replace(PEERS, running=18), IDLE, 0, "more than 85% of the 20 slots"),
        (PEERS, replace(IDLE, demand_tokens_per_second=860.0), 0, "more than 85% of the 1000 tok/s"),
        (replace(PEERS, capacity=None), replace(IDLE, demand_tokens_per_second=860.0), 0, None),
        (replace(PEERS, running=None), IDLE, 0, None),
        (PEERS, UNKNOWN, 0, None),
        (replace(PEERS, running=18), UNKNOWN, 0, "more than 85%"),
        (replace(PEERS, running=None), UNKNOWN, 0, "an engine does not answer"),
        (replace(PEERS, serving=0, missing=("chat-r0",)), IDLE, 0, "chat-r0 does not serve"),
    ],
)
def test_it_is_given_back_when_it_is_needed(peers: Peers, demand: Demand | NoDemand, queued_samples: int, words: str | None):
    found = why_give_back(peers, demand, queued_samples=queued_samples, replicas=2)
    assert found is None if words is None else words in (found or "")
