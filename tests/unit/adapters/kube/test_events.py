"""Events: one name for what is said, so that saying it again only counts."""

from dataclasses import replace
from datetime import UTC, datetime

from mtpilot.adapters.kube.events import event_manifest, event_name
from mtpilot.adapters.kube.gather import service_from_object
from mtpilot.model.plan import Event, EventType

from .live import inference_service

SERVICE = service_from_object(inference_service())
EVENT = Event(type=EventType.WARNING, reason="DrainTimedOut", message="chat-r0: timed out with 3 requests in flight")
NOW = datetime(2026, 12, 1, 12, 0, 0, 900, tzinfo=UTC)


def test_the_name_depends_on_what_is_said_about_which_service() -> None:
    name = event_name(SERVICE, EVENT)
    assert name == event_name(SERVICE, replace(EVENT, action="Drain"))
    others = {
        event_name(SERVICE, replace(EVENT, message="else")),
        event_name(SERVICE, replace(EVENT, reason="Else")),
        event_name(SERVICE, replace(EVENT, type=EventType.NORMAL)),
        event_name(replace(SERVICE, uid="next"), EVENT),
    }
    assert len(others | {name}) == 5
    assert len(f"{'s' * 40}.{name.split('.')[1]}") < 64


def test_the_manifest() -> None:
    found = event_manifest(SERVICE, replace(EVENT, message="x" * 5000), NOW)
    assert found["firstTimestamp"] == found["lastTimestamp"] == "2026-12-01T12:00:00Z"
    assert found["involvedObject"]["uid"] == SERVICE.uid
    assert found["count"] == 1
    assert len(found["message"]) == 1024
