"""The contention limit that the gateway is told, and that telling it rolls nothing."""

from typing import Any

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import Verdict
from mtpilot.gateway.limits import FileLimits
from mtpilot.model.calibration import Calibration
from mtpilot.model.names import routing_name
from mtpilot.render.gateway import render_gateway
from mtpilot.render.routing import CONTENTION_LIMIT_KEY, contention_limit, render_routing
from tests.unit.curves.builders import pair
from tests.unit.render.samples import service, small_spec


def calibration(**what: Any) -> Calibration:
    return Calibration(**{"profile": "p", "context_tokens": 1000, "curves": pair(), "verdict": Verdict.FLIP, "above": Mode.BATCH, **what})


@pytest.mark.parametrize(
    ("found", "limit"),
    [
        (None, None),
        (calibration(crossover=11.9), 11),
        (calibration(crossover=0.4), 1),
        (calibration(crossover=None), None),
        (calibration(crossover=11.9, above=Mode.MTP), None),
        (calibration(crossover=None, above=None, verdict=Verdict.MTP_ONLY), None),
        (calibration(crossover=None, above=None, verdict=Verdict.BATCH_ONLY), 1),
    ],
)
def test_the_limit_is_the_crossover(found: Calibration | None, limit: int | None) -> None:
    assert contention_limit(service(small_spec()).spec, found) == limit


def test_the_users_own_limit_goes_before_the_profile() -> None:
    spec = service(small_spec(gateway={"contention": {"limit": 3}})).spec
    assert contention_limit(spec, calibration(crossover=11.9)) == contention_limit(spec, None) == 3


def test_another_limit_changes_one_object_and_rolls_nothing() -> None:
    made = service(small_spec())
    before, after = render_gateway(made, limit=None), render_gateway(made, limit=5)
    assert [new["metadata"]["name"] for old, new in zip(before, after, strict=True) if old != new] == [routing_name("chat")]


@pytest.mark.parametrize(("text", "limit"), [("7", 7), (" 7\n", 7), ("none", None), ("0", None), ("-1", None), ("", None), ("1.5", None)])
def test_the_agent_reads_it_from_a_file(tmp_path, text: str, limit: int | None) -> None:
    assert FileLimits(tmp_path).contention_limit() is None
    (tmp_path / CONTENTION_LIMIT_KEY).write_text(text)
    assert FileLimits(tmp_path).contention_limit() == limit


@pytest.mark.parametrize("limit", [None, 1, 4096])
def test_what_is_rendered_is_what_is_read(tmp_path, limit: int | None) -> None:
    for name, text in render_routing(service(small_spec()), limit)["data"].items():
        (tmp_path / name).write_text(text)
    assert FileLimits(tmp_path).contention_limit() == limit
