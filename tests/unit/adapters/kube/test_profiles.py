"""ThroughputProfiles as read: each generation parsed once, and what cannot be read stays visible."""

from __future__ import annotations

from typing import Any

import pytest

from mtpilot.adapters.kube.cluster import KubeCluster
from mtpilot.adapters.kube.profiles import ProfileReader, profile_from_object
from mtpilot.api.types import API_VERSION
from mtpilot.model.snapshot import Manifest
from mtpilot.ports import ClusterError


def profile(name: str = "measured", *, generation: int = 1, **spec: Any) -> Manifest:
    curves = [
        {
            "mode": "mtp",
            "contextTokens": 1000,
            "slots": 24,
            "acceptLength": "2",
            "points": [{"concurrency": 1, "outputTokensPerSecond": "121.5"}],
        },
        {"mode": "batch", "contextTokens": 1000, "slots": 68, "points": [{"concurrency": 1, "outputTokensPerSecond": "108"}]},
    ]
    base = {
        "model": {"source": "hf://a/b"},
        "hardwareClass": "rtx",
        "acceptance": "Natural",
        "curves": curves,
        "provenance": {"source": "run"},
    }
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "generation": generation}
    return {"apiVersion": API_VERSION, "kind": "ThroughputProfile", "metadata": metadata, "spec": base | spec}


class Listing:
    """`list_all` of a client that has these objects."""

    def __init__(self, *objects: Manifest) -> None:
        self.objects = list(objects)
        self.asked: list[tuple[Any, ...]] = []

    async def list_all(self, *kind: str, namespace: str, cached: bool) -> list[Manifest]:
        self.asked.append((*kind, namespace, cached))
        return self.objects


async def test_profiles_by_name_from_the_watch_cache() -> None:
    listing = Listing(profile("b"), profile("a"))
    found = await ProfileReader(listing).of_namespace("team-a")  # type: ignore[arg-type]
    assert [item.name for item in found] == ["a", "b"]
    assert listing.asked == [(API_VERSION, "ThroughputProfile", "team-a", True)]


async def test_a_generation_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = Listing(profile())
    reader = ProfileReader(listing)  # type: ignore[arg-type]
    (first,) = await reader.of_namespace("team-a")
    listing.objects = [profile(acceptance="Synthetic")]  # the same generation: its status changed, not its spec
    assert (await reader.of_namespace("team-a"))[0] is first
    listing.objects = [profile(generation=2, acceptance="Synthetic")]
    (second,) = await reader.of_namespace("team-a")
    assert second.spec is not None
    assert (second.generation, second.spec.acceptance) == (2, "Synthetic")
    listing.objects = []
    assert await reader.of_namespace("team-a") == ()


def test_a_profile_that_does_not_fit_the_models_says_what_is_wrong() -> None:
    found = profile_from_object(profile(acceptance="Guessed"))
    assert found.spec is None
    assert (found.name, (found.problem or "").partition(":")[0]) == ("measured", "spec.acceptance")


class Written(Listing):
    """Also takes statuses, as the API server would."""

    def __init__(self, *objects: Manifest, refused: str | None = None) -> None:
        super().__init__(*objects)
        self.writes: list[Manifest] = []
        self.refused = refused  # name of the object whose status is not taken

    async def apply(self, manifest: Manifest, *, field_manager: str, subresource: str) -> None:
        assert (field_manager, subresource) == ("mtpilot", "status")
        if manifest["metadata"]["name"] == self.refused:
            raise ClusterError("no")
        self.writes.append(manifest)
        for obj in self.objects:
            if obj["metadata"]["uid"] == manifest["metadata"]["uid"]:
                obj["status"] = manifest["status"]


async def test_each_generation_is_judged_and_written_once() -> None:
    client = Written(profile("a"), profile("b", curves=[]))
    cluster = KubeCluster(client)  # type: ignore[arg-type]
    assert await cluster.refresh_profiles(("team-a",)) == 2
    assert client.objects[0]["status"]["observedGeneration"] == 1
    assert client.objects[0]["status"]["verdict"] == "MtpOnly"  # its only points are those at one request
    assert "verdict" not in client.objects[1]["status"]
    assert [[item["status"] for item in obj["status"]["conditions"]] for obj in client.objects] == [["True"], ["False"]]
    assert await cluster.refresh_profiles(("team-a",)) == 0
    client.objects[0]["metadata"]["generation"] = 2
    assert await cluster.refresh_profiles(("team-a",)) == 1
    assert client.objects[0]["status"]["observedGeneration"] == 2
    restarted = KubeCluster(client)  # type: ignore[arg-type]
    assert await restarted.refresh_profiles(("team-a",)) == 0
    assert len(client.writes) == 3


async def test_a_profile_whose_status_is_refused_holds_up_no_other_and_is_tried_again() -> None:
    client = Written(profile("a"), profile("b"), refused="a")
    cluster = KubeCluster(client)  # type: ignore[arg-type]
    assert await cluster.refresh_profiles(("team-a",)) == 1
    assert [written["metadata"]["name"] for written in client.writes] == ["b"]
    client.refused = None
    assert await cluster.refresh_profiles(("team-a",)) == 1
    assert "verdict" in client.objects[0]["status"]


@pytest.mark.parametrize("foreign", [None, "odd", [{"type": "Else"}], [{"type": "Valid", "status": "True"}]])
async def test_conditions_that_cannot_be_read_are_written_anew(foreign: object) -> None:
    client = Written(profile("a") | {"status": {"conditions": foreign}})
    assert await KubeCluster(client).refresh_profiles(("team-a",)) == 1  # type: ignore[arg-type]
    assert [item["reason"] for item in client.objects[0]["status"]["conditions"]] == ["CurvesUsable"]


async def test_a_condition_that_still_holds_keeps_its_time() -> None:
    client = Written(profile("a"))
    cluster = KubeCluster(client)  # type: ignore[arg-type]
    await cluster.refresh_profiles(("team-a",))
    (valid,) = client.objects[0]["status"]["conditions"]
    valid["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    client.objects[0]["metadata"]["generation"] = 2
    await cluster.refresh_profiles(("team-a",))
    (valid,) = client.objects[0]["status"]["conditions"]
    assert (valid["lastTransitionTime"], valid["observedGeneration"]) == ("2026-01-01T00:00:00Z", 2)


class Classes:
    """A client with hardware classes and no node."""

    def __init__(self, refused: str, *classes: Manifest) -> None:
        self.classes, self.refused = classes, refused
        self.written: list[str] = []

    async def list_all(self, _version: str, kind: str, **_options: Any) -> list[Manifest]:
        return list(self.classes) if kind == "HardwareClass" else []

    async def apply(self, manifest: Manifest, **_options: Any) -> None:
        if manifest["metadata"]["name"] == self.refused:
            raise ClusterError("no")
        self.written.append(manifest["metadata"]["name"])


async def test_a_hardware_class_that_cannot_be_written_or_read_holds_up_no_other() -> None:
    def hardware(name: str, **spec: Any) -> Manifest:
        return {"apiVersion": API_VERSION, "kind": "HardwareClass", "metadata": {"name": name}, "spec": spec}

    good = {"gpu": {"perReplica": 1, "memory": "96Gi"}}
    client = Classes("refused", hardware("refused", **good), hardware("unread", gpu="many"), hardware("good", **good))
    assert await KubeCluster(client).refresh_hardware() == 1  # type: ignore[arg-type]
    assert client.written == ["good"]
