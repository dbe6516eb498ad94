"""Which arguments make a measurement another one."""

from typing import Any

import pytest

from mtpilot.render.flags_digest import flags_sha256
from tests.unit.render.samples import service, small_hardware, small_spec


def digest(*args: str, **changes: Any) -> str:
    return flags_sha256(service(small_spec(**changes)).spec, small_hardware(*args).spec)


PLAIN = digest("--tp-size", "4", "--chunked-prefill-size", "8192")


@pytest.mark.parametrize(
    "args",
    [
        ("--chunked-prefill-size", "8192", "--tp-size", "4"),
        ("--tensor-parallel-size", "4", "--chunked-prefill-size", "8192"),
        ("--tp-size=4", "--chunked-prefill-size=8192"),
    ],
)
def test_order_and_spelling_do_not_matter(args: tuple[str, ...]) -> None:
    assert digest(*args) == PLAIN


def test_neither_do_names() -> None:
    named = {"source": "hf://org/other", "servedName": "other", "revision": "main"}
    assert digest("--tp-size", "4", "--chunked-prefill-size", "8192", model=named) == PLAIN


@pytest.mark.parametrize(
    "changes",
    [
        {"modes": {"mtp": {"maxRunningRequests": 9}, "batch": {"maxRunningRequests": 32}}},
        {"modes": {"mtp": {"maxRunningRequests": 8, "memFractionStatic": "0.9"}, "batch": {"maxRunningRequests": 32}}},
        {
            "modes": {
                "mtp": {"maxRunningRequests": 8, "speculation": {"numSteps": 1, "numDraftTokens": 2}},
                "batch": {"maxRunningRequests": 32},
            }
        },
        {"model": {"source": "hf://org/name", "contextLength": 4096}},
    ],
)
def test_limits_speculation_and_context_do(changes: dict[str, Any]) -> None:
    assert digest("--tp-size", "4", "--chunked-prefill-size", "8192", **changes) != PLAIN
