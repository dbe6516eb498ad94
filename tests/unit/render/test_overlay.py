"""The overlay: a merge by name that adds what a user needs and cannot take away what the operator needs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtpilot.api.inference_service import Mode
from mtpilot.render.engine import pod_template
from mtpilot.render.errors import InvalidOverlay
from mtpilot.render.overlay import apply_overlay, engine_container, merge

from .samples import CHAT, service, small_hardware, small_spec

PLAIN = pod_template("chat", CHAT.service.spec, CHAT.hardware.spec, Mode.MTP, slot="chat-r0")


def overlaid(overlay: dict[str, Any]) -> dict[str, Any]:
    made = service(small_spec(engine={"podTemplate": overlay}, model={"source": "/m", "cache": {"persistentVolumeClaim": "c"}}))
    on = small_hardware(tolerations=[{"key": "gpu", "operator": "Exists"}])
    return pod_template("chat", made.spec, on.spec, Mode.BATCH, slot="chat-r0")


def test_named_objects_merge_by_name_and_new_ones_are_added() -> None:
    pod = overlaid(
        {
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
            "spec": {
                "priorityClassName": "inference",
                "containers": [{"name": "log", "image": "log:1"}, {"name": "engine", "imagePullPolicy": "Always"}],
                "imagePullSecrets": [{"name": "registry"}],
            },
        }
    )
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["annotations"]["note"] == "b"
    assert pod["spec"]["priorityClassName"] == "inference"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert [container["name"] for container in pod["spec"]["containers"]] == ["engine", "log"]
    assert engine_container(pod)["imagePullPolicy"] == "Always"
    assert engine_container(pod)["command"] == ["python3", "-m", "sglang.launch_server"]


def test_a_variable_or_a_volume_has_one_source() -> None:
    pod = overlaid(
        {
            "spec": {
                "volumes": [{"name": "model-cache", "hostPath": {"path": "/fast"}}],
                "containers": [
                    {"name": "engine", "env": [{"name": "HF_HOME", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}]}
                ],
            }
        }
    )
    assert {"name": "model-cache", "hostPath": {"path": "/fast"}} in pod["spec"]["volumes"]
    (home,) = [variable for variable in engine_container(pod)["env"] if variable["name"] == "HF_HOME"]
    assert set(home) == {"name", "valueFrom"}


def test_tolerations_are_added_and_null_removes() -> None:
    own = {"key": "spot", "operator": "Exists"}
    pod = overlaid({"spec": {"tolerations": [own, own, {"key": "gpu", "operator": "Exists"}], "topologySpreadConstraints": None}})
    assert pod["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}, own]
    assert "topologySpreadConstraints" not in pod["spec"]


def engine_with(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "engine", **fields}]}}


@pytest.mark.parametrize(
    ("overlay", "field"),
    [
        ({"metadata": {"labels": {"mtpilot.dev/mode": "batch"}}}, "metadata.labels[mtpilot.dev/mode]"),
        ({"metadata": {"labels": {"mtpilot.dev/anything": "x"}}}, "metadata.labels[mtpilot.dev/anything]"),
        ({"metadata": {"labels": {"mtpilot.dev/slot": None}}}, "metadata.labels[mtpilot.dev/slot]"),
        ({"metadata": {"labels": {"app.kubernetes.io/instance": "x"}}}, "metadata.labels[app.kubernetes.io/instance]"),
        ({"metadata": {"annotations": {"mtpilot.dev/digest": "x"}}}, "metadata.annotations[mtpilot.dev/digest]"),
        ({"metadata": {"annotations": {"prometheus.io/port": "1"}}}, "metadata.annotations[prometheus.io/port]"),
        ({"metadata": None}, "metadata"),
        ({"metadata": {"labels": None}}, "metadata.labels"),
        ({"metadata": []}, "metadata"),
        ({"spec": None}, "spec"),
        ({"spec": []}, "spec"),
        ({"spec": {"containers": None}}, "spec.containers[engine]"),
        ({"spec": {"containers": {"name": "engine"}}}, "spec.containers"),
        ({"spec": {"containers": [{"image": "x"}]}}, "spec.containers[0]"),
        ({"spec": {"containers": [{"name": ["engine"]}]}}, "spec.containers[0]"),
        ({"spec": {"volumes": None}}, "spec.volumes[shm]"),
        ({"spec": {"terminationGracePeriodSeconds": 30}}, "spec.terminationGracePeriodSeconds"),
        ({"spec": {"restartPolicy": "Never"}}, "spec.restartPolicy"),
        ({"containers": []}, ""),
        (engine_with(args=["--help"]), "spec.containers[engine].args"),
        (engine_with(command=["sh"]), "spec.containers[engine].command"),
        (engine_with(image="x"), "spec.containers[engine].image"),
        (engine_with(readinessProbe=None), "spec.containers[engine].readinessProbe"),
        (engine_with(startupProbe={"periodSeconds": 1}), "spec.containers[engine].startupProbe"),
        (engine_with(lifecycle=None), "spec.containers[engine].lifecycle"),
        (engine_with(env=[{"name": "POD_UID", "value": "x"}]), "spec.containers[engine].env[POD_UID]"),
        (engine_with(env=None), "spec.containers[engine].env[POD_IP]"),
        (engine_with(volumeMounts=[{"mountPath": "/dev/shm", "name": "other"}]), "spec.containers[engine].volumeMounts[/dev/shm]"),
        (engine_with(ports=None), "spec.containers[engine].ports[30000]"),
        (engine_with(resources={"limits": {"nvidia.com/gpu": "2"}}), "spec.containers[engine].resources.limits[nvidia.com/gpu]"),
        (engine_with(resources=None), "spec.containers[engine].resources.limits[nvidia.com/gpu]"),
    ],
)
def test_what_the_operator_relies_on_is_refused_with_its_path(overlay: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidOverlay) as caught:
        overlaid(overlay)
    assert caught.value.field == f"spec.engine.podTemplate.{field}".rstrip(".")


SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2)
NAMES = st.sampled_from(["name", "image", "env", "volumes", "containers", "tolerations", "x", "labels", "spec", "metadata", "value"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12)
OVERLAYS = st.dictionaries(NAMES, VALUES, max_size=4)
POD_OVERLAYS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"labels": st.dictionaries(st.text("ab/", min_size=1), st.text("cd"), max_size=2)}),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "priorityClassName": st.text("ab", min_size=1),
                "tolerations": st.lists(st.fixed_dictionaries({"key": st.text("ab", max_size=1)}), max_size=3),
                "nodeSelector": st.dictionaries(st.text("ab", min_size=1), st.none() | st.text("cd"), max_size=2),
                "volumes": st.lists(st.fixed_dictionaries({"name": st.sampled_from(["shm", "a"]), "emptyDir": st.just({})}), max_size=2),
                "containers": st.lists(
                    st.fixed_dictionaries(
                        {"name": st.sampled_from(["engine", "log"])}, optional={"args": VALUES, "env": VALUES, "x": SCALARS}
                    ),
                    max_size=2,
                ),
            },
        ),
    },
)


def settled(base: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any] | None:
    try:
        merged: dict[str, Any] = merge(base, overlay)
    except InvalidOverlay:
        return None
    return merged


@given(base=OVERLAYS, overlay=OVERLAYS)
def test_merging_twice_is_merging_once(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    start = settled({}, base)
    once = None if start is None else settled(start, overlay)
    if once is not None:
        assert settled(once, overlay) == once


@given(base=OVERLAYS)
def test_an_empty_overlay_changes_nothing(base: dict[str, Any]) -> None:
    start = settled({}, base)
    if start is not None:
        assert settled(start, {}) == start


@given(overlay=POD_OVERLAYS)
def test_no_overlay_loses_what_the_operator_needs(overlay: dict[str, Any]) -> None:
    try:
        merged = apply_overlay(PLAIN, overlay, service="chat")
    except InvalidOverlay:
        return
    assert merged["metadata"]["labels"].items() >= PLAIN["metadata"]["labels"].items()
    assert merged["metadata"]["annotations"].items() >= PLAIN["metadata"]["annotations"].items()
    assert merged["spec"]["terminationGracePeriodSeconds"] == PLAIN["spec"]["terminationGracePeriodSeconds"]
    before, after = engine_container(PLAIN), engine_container(merged)
    for name in ("image", "command", "args", "startupProbe", "readinessProbe", "lifecycle", "ports", "volumeMounts", "resources"):
        assert after[name] == before[name]
    assert apply_overlay(merged, overlay, service="chat") == merged
