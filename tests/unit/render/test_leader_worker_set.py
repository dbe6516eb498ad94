"""A slot over several nodes: one group, of which one pod serves."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from mtpilot.api.inference_service import Mode
from mtpilot.model.names import LABEL_COMPONENT, LABEL_SERVING, LABEL_SLOT, LABEL_TEMPLATE_DIGEST
from mtpilot.model.slots import SlotKind
from mtpilot.model.snapshot import HardwareView, Manifest
from mtpilot.render.arguments import engine_arguments
from mtpilot.render.digest import object_digest
from mtpilot.render.slot import render_slot, slot_from_template, template_digest

from .samples import MODES, hardware, service, small_hardware, small_spec

SERVICE = service(small_spec(engine={"podTemplate": {"metadata": {"annotations": {"example.com/rdma": "yes"}}}}))


def over(nodes: int) -> HardwareView:
    return hardware({"gpu": {"perReplica": 16, "memory": "141Gi"}, "nodesPerReplica": nodes, "engine": {"args": ["--tp-size", "16"]}})


def group(mode: Mode = Mode.MTP, nodes: int = 2) -> dict[str, Any]:
    template: dict[str, Any] = render_slot(SERVICE, over(nodes), 1, mode)["spec"]["leaderWorkerTemplate"]
    return template


def container(pod: Manifest) -> dict[str, Any]:
    (found,) = pod["spec"]["containers"]
    return dict(found)


@pytest.mark.parametrize("mode", MODES)
def test_one_group_that_is_ended_before_it_is_replaced(mode: Mode) -> None:
    rendered = render_slot(SERVICE, over(2), 1, mode)
    assert (rendered["apiVersion"], rendered["kind"]) == ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
    assert rendered["metadata"]["name"] == "chat-r1"
    assert rendered["metadata"]["annotations"]["mtpilot.dev/digest"] == object_digest(rendered)
    spec = rendered["spec"]
    assert spec["replicas"] == 1
    assert spec["rolloutStrategy"]["rollingUpdateConfiguration"] == {"maxUnavailable": 1, "maxSurge": 0}
    assert (spec["leaderWorkerTemplate"]["size"], spec["leaderWorkerTemplate"]["restartPolicy"]) == (2, "RecreateGroupOnPodRestart")


def test_every_node_runs_the_same_arguments_with_its_share_of_the_gpus() -> None:
    leader, worker = (container(group()[part]) for part in ("leaderTemplate", "workerTemplate"))
    assert leader["args"] == worker["args"]
    at = leader["args"].index("--nnodes")
    nodes = ["--nnodes", "2", "--node-rank", "$(LWS_WORKER_INDEX)", "--dist-init-addr", "$(LWS_LEADER_ADDRESS):20000"]
    assert leader["args"][at : at + 6] == nodes
    assert leader["resources"] == worker["resources"] == {"limits": {"nvidia.com/gpu": "8"}, "requests": {"nvidia.com/gpu": "8"}}
    assert "--nnodes" not in engine_arguments(SERVICE.spec, small_hardware().spec, Mode.MTP)


def test_only_the_leader_is_an_engine_to_others() -> None:
    leader, worker = (group()[part] for part in ("leaderTemplate", "workerTemplate"))
    labels = worker["metadata"]["labels"]
    assert leader["metadata"]["labels"][LABEL_COMPONENT] == "engine"
    assert labels[LABEL_COMPONENT] == labels["app.kubernetes.io/component"] == "engine-worker"
    assert LABEL_SERVING not in labels
    assert worker["metadata"]["annotations"] == {"example.com/rdma": "yes"}
    assert not {"startupProbe", "readinessProbe", "lifecycle"} & set(container(worker))
    assert {"startupProbe", "readinessProbe", "lifecycle"} <= set(container(leader))
    assert worker["spec"]["terminationGracePeriodSeconds"] < leader["spec"]["terminationGracePeriodSeconds"]


def test_one_digest_for_both_templates_and_all_slots_that_tells_sizes_and_modes_apart() -> None:
    digests = {(mode, nodes): template_digest(SERVICE, over(nodes), mode) for mode in MODES for nodes in (1, 2, 4)}
    assert len(set(digests.values())) == len(digests)
    for part in ("leaderTemplate", "workerTemplate"):
        labels = group()[part]["metadata"]["labels"]
        assert (labels[LABEL_TEMPLATE_DIGEST], labels[LABEL_SLOT]) == (digests[Mode.MTP, 2], "chat-r1")


def test_a_change_of_the_worker_alone_is_another_template(monkeypatch: pytest.MonkeyPatch) -> None:
    before = template_digest(SERVICE, over(2), Mode.MTP)
    monkeypatch.setattr("mtpilot.render.leader_worker_set.SHUTDOWN_SECONDS", 31)
    assert template_digest(SERVICE, over(2), Mode.MTP) != before


def test_a_template_that_the_cluster_kept_becomes_the_same_object_again() -> None:
    rendered = render_slot(SERVICE, over(2), 1, Mode.MTP)
    kept = deepcopy(rendered["spec"]["leaderWorkerTemplate"])
    for part in ("leaderTemplate", "workerTemplate"):
        kept[part]["metadata"]["creationTimestamp"] = None
    other = replace(SERVICE, spec=SERVICE.spec)
    assert slot_from_template(other, SlotKind.LEADER_WORKER_SET, 1, Mode.MTP, kept) == rendered
