"""The pod template: labels, container, volumes, probes and grace."""

from typing import Any

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.api.types import parse_duration
from mtpilot.model.names import LABEL_MODE, LABEL_SERVICE, LABEL_SERVING, LABEL_SLOT, LABEL_TEMPLATE_DIGEST
from mtpilot.model.snapshot import HardwareView
from mtpilot.render.engine import pod_template
from mtpilot.render.errors import InvalidArguments

from .samples import MODES, SAMPLES, Sample, hardware, service, small_hardware, small_spec


def template(mode: Mode = Mode.MTP, on: HardwareView | None = None, **changes: Any) -> dict[str, Any]:
    made = service(small_spec(**changes))
    return pod_template(made.name, made.spec, (on or small_hardware()).spec, mode, slot="chat-r0")


def engine(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def environment(pod: dict[str, Any]) -> dict[str, Any]:
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in engine(pod)["env"]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_grace_covers_the_drain_and_the_startup_probe_covers_the_ready_deadline(sample: Sample, mode: Mode) -> None:
    pod = pod_template(sample.service.name, sample.service.spec, sample.hardware.spec, mode, slot="s-r0")
    rollout = sample.service.spec.rollout
    container = engine(pod)
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["spec"]["terminationGracePeriodSeconds"] >= parse_duration(rollout.drain_timeout).total_seconds() + pause + 20
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= parse_duration(rollout.ready_timeout).total_seconds()


@pytest.mark.parametrize("name", ["startupProbe", "readinessProbe"])
def test_probes_ask_ready_often_and_wait_long_enough(name: str) -> None:
    probe = engine(template())[name]
    assert probe["httpGet"] == {"path": "/ready", "port": 30000, "scheme": "HTTP"}
    assert probe["timeoutSeconds"] >= 5
    assert probe["failureThreshold"] >= 3
    assert probe["periodSeconds"] <= 2


def test_no_liveness_probe_can_kill_a_paused_or_busy_engine() -> None:
    assert "livenessProbe" not in engine(template())


def test_the_engine_is_the_containers_first_process() -> None:
    assert engine(template())["command"] == ["python3", "-m", "sglang.launch_server"]
    assert "shareProcessNamespace" not in template()["spec"]


def test_labels_say_which_slot_which_mode_and_which_template() -> None:
    labels = template(Mode.BATCH)["metadata"]["labels"]
    assert labels[LABEL_SERVICE] == "chat"
    assert labels[LABEL_SLOT] == "chat-r0"
    assert labels[LABEL_MODE] == "batch"
    assert labels[LABEL_SERVING] == "true"
    assert len(labels[LABEL_TEMPLATE_DIGEST]) == 12


def test_prometheus_is_told_where_to_scrape() -> None:
    annotations = template()["metadata"]["annotations"]
    assert annotations == {"prometheus.io/scrape": "true", "prometheus.io/port": "30000", "prometheus.io/path": "/metrics"}


def test_every_variable_an_argument_refers_to_is_set() -> None:
    pod = template()
    variables = environment(pod)
    assert variables["POD_IP"] == {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}
    assert variables["POD_UID"] == {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}
    assert variables["MTPILOT_ADMIN_API_KEY"] == {"secretKeyRef": {"name": "chat-admin", "key": "admin-api-key"}}
    text = " ".join(engine(pod)["args"])
    assert [name for name in variables if f"$({name})" in text] == ["POD_IP", "POD_UID", "MTPILOT_ADMIN_API_KEY"]
    assert text.count("$(") == 3


def test_hub_variables_follow_the_model_and_a_user_may_replace_them() -> None:
    assert not {"HF_TOKEN", "HF_HOME"} & set(environment(template()))
    model = {"source": "hf://o/n", "cache": {"persistentVolumeClaim": "models"}, "tokenSecret": {"name": "hub", "key": "t"}}
    assert environment(template(model=model))["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "t"}}
    assert environment(template(model=model))["HF_HOME"] == "/models"
    own = environment(template(model=model, engine={"env": [{"name": "HF_HOME", "value": "/x"}, {"name": "DEBUG", "value": "1"}]}))
    assert own["HF_HOME"] == "/x"
    assert own["DEBUG"] == "1"


def test_a_reserved_variable_is_refused() -> None:
    with pytest.raises(InvalidArguments, match=r"^spec\.engine\.env\[POD_UID\]: "):
        template(engine={"env": [{"name": "POD_UID", "value": "x"}]})


@pytest.mark.parametrize(
    ("cache", "volume"),
    [
        ({"persistentVolumeClaim": "models"}, {"persistentVolumeClaim": {"claimName": "models"}}),
        ({"hostPath": "/var/lib/models"}, {"hostPath": {"path": "/var/lib/models", "type": "DirectoryOrCreate"}}),
    ],
)
def test_the_cache_is_mounted_beside_shared_memory(cache: dict[str, str], volume: dict[str, Any]) -> None:
    pod = template(model={"source": "/m", "cache": cache})
    assert pod["spec"]["volumes"][1] == {"name": "model-cache", **volume}
    assert [mount["mountPath"] for mount in engine(pod)["volumeMounts"]] == ["/dev/shm", "/models"]


def test_shared_memory_is_in_memory_and_bounded() -> None:
    (volume,) = template()["spec"]["volumes"]
    assert volume == {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}


def test_gpus_come_from_the_class_and_other_resources_from_the_spec() -> None:
    on = hardware({"gpu": {"resource": "amd.com/gpu", "perReplica": 8, "memory": "192Gi"}})
    resources = engine(template(on=on, engine={"resources": {"requests": {"cpu": 8}, "limits": {"memory": "64Gi"}}}))["resources"]
    assert resources == {"limits": {"amd.com/gpu": "8", "memory": "64Gi"}, "requests": {"amd.com/gpu": "8", "cpu": "8"}}
    for wrong in ({"limits": {"amd.com/gpu": "4"}}, {"limits": {"amd.com/gpu": None}}, {"limits": None}):
        with pytest.raises(InvalidArguments, match="GPUs come from the hardware class"):
            template(on=on, engine={"resources": wrong})


def test_every_node_of_a_replica_asks_for_its_share_of_the_gpus() -> None:
    on = hardware({"gpu": {"perReplica": 16, "memory": "141Gi"}, "nodesPerReplica": 2})
    assert engine(template(on=on))["resources"]["requests"] == {"nvidia.com/gpu": "8"}


def test_placement_follows_the_class_and_spreads_softly() -> None:
    on = small_hardware(nodeSelector={"gpu": "x"}, tolerations=[{"key": "gpu", "operator": "Exists"}])
    pod = template(on=on)["spec"]
    assert pod["nodeSelector"] == {"gpu": "x"}
    assert pod["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert [spread["whenUnsatisfiable"] for spread in pod["topologySpreadConstraints"]] == ["ScheduleAnyway"]
    assert not {"nodeSelector", "tolerations"} & set(template()["spec"])


def test_the_pod_gets_no_rights_that_it_does_not_need() -> None:
    pod = template()
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["enableServiceLinks"] is False
    assert pod["spec"]["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert engine(pod)["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
