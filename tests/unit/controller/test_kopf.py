"""What kopf is told: settings that would hurt if they slipped, and which events are news."""

from __future__ import annotations

from typing import Any

import kopf
import pytest

from mtpilot.controller import operator
from mtpilot.controller.context import Options
from mtpilot.controller.handlers import Attention
from mtpilot.controller.settings import kopf_settings
from mtpilot.model.names import FINALIZER


def service(**metadata: object) -> dict[str, object]:
    return {"metadata": {"uid": "u", "generation": 1, **metadata}, "status": {}}


def test_kopf_does_not_own_our_finalizer() -> None:
    assert kopf_settings().persistence.finalizer != FINALIZER


def test_every_wait_has_an_end() -> None:
    settings = kopf_settings()
    assert str(settings.watching.server_timeout).isdecimal(), "a float is refused by the API server"
    for seconds in (
        settings.watching.client_timeout,
        settings.watching.connect_timeout,
        settings.networking.request_timeout,
        settings.networking.connect_timeout,
        settings.process.ultimate_exiting_timeout,
    ):
        assert seconds is not None
        assert 0 < seconds < 600
    assert settings.queueing.worker_limit is None


def test_kopf_writes_nothing_of_its_own() -> None:
    settings = kopf_settings()
    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled
    assert isinstance(settings.persistence.progress_storage, kopf.AnnotationsProgressStorage)


def test_pods_and_deployments_are_filtered_by_the_server() -> None:
    selectors = {str(selector): value for selector, value in kopf_settings().watching.label_selectors.items()}
    assert len(selectors) == 2
    assert all("app.kubernetes.io/managed-by=mtpilot" in value for value in selectors.values())


def test_our_own_status_writes_are_no_news() -> None:
    attention = Attention()
    assert attention.is_news(None, service(resourceVersion="1"))
    assert not attention.is_news("MODIFIED", service(resourceVersion="2"))


def test_what_is_news() -> None:
    attention = Attention()
    attention.is_news("ADDED", service())
    assert attention.is_news("MODIFIED", service(generation=2))
    assert attention.is_news("MODIFIED", service(generation=2, annotations={"a": "1"}))
    assert attention.is_news("MODIFIED", service(generation=2, annotations={"a": "1"}, finalizers=[FINALIZER]))
    deleting = service(generation=3, annotations={"a": "1"}, finalizers=[FINALIZER], deletionTimestamp="2026-12-01T12:00:00Z")
    assert attention.is_news("MODIFIED", deleting)
    assert not attention.is_news("MODIFIED", deleting)
    assert attention.is_news("DELETED", deleting)
    assert attention.is_news("ADDED", deleting), "forgotten with its deletion"


async def test_operator_starts_under_a_uid_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in its own image: without an identity from us, kopf asks for the user's name and ends."""
    told: dict[str, Any] = {}

    async def run(**options: Any) -> None:
        told.update(options)

    monkeypatch.setattr(kopf, "operator", run)
    monkeypatch.setattr(operator, "register", lambda *_: None)
    await operator._run_kopf(Options(), None, None)  # type: ignore[arg-type]
    assert told["identity"]
