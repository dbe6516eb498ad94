"""The gateway's objects: one name each, ours, and rolled only by what HAProxy must be started anew for."""

from typing import Any

import pytest

from mtpilot.api.types import API_VERSION
from mtpilot.model.names import ANNOTATION_DIGEST, COMPONENT_GATEWAY, LABEL_COMPONENT, LABEL_SERVICE
from mtpilot.model.snapshot import GatewayImages, Manifest, Service
from mtpilot.render.gateway import ANNOTATION_CONFIG_DIGEST, render_gateway
from mtpilot.render.gateway_pod import TLS_DIR, gateway_pod_spec, stop_grace_seconds, stop_script
from mtpilot.render.haproxy import haproxy_config
from tests.unit.render.samples import UID, service, small_hardware, small_spec

KEEP_ALIVE_OF_FIVE = {"name": "SGLANG_TIMEOUT_KEEP_ALIVE", "value": "5"}
KEEP_ALIVE_FROM_A_SECRET = {"name": "SGLANG_TIMEOUT_KEEP_ALIVE", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}


def gateway(**changes: object) -> Service:
    return service(small_spec(gateway={"replicas": 2, **changes}))


def rendered(made: Service) -> dict[str, Manifest]:
    return {manifest["kind"]: manifest for manifest in render_gateway(made)}


def test_every_object_is_ours() -> None:
    objects = render_gateway(gateway())
    assert [manifest["kind"] for manifest in objects] == [
        "ConfigMap",
        "ConfigMap",
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "Deployment",
        "Service",
        "PodDisruptionBudget",
    ]
    for manifest in objects:
        metadata = manifest["metadata"]
        (owner,) = metadata["ownerReferences"]
        assert (owner["apiVersion"], owner["uid"], owner["controller"]) == (API_VERSION, UID, True)
        assert metadata["namespace"] == "team-a"
        assert metadata["name"] in ({"chat"} if manifest["kind"] == "Service" else {"chat-gateway", "chat-gateway-routing"})
        assert metadata["labels"].items() >= {LABEL_SERVICE: "chat", LABEL_COMPONENT: COMPONENT_GATEWAY}.items()
        assert metadata["annotations"][ANNOTATION_DIGEST]


def test_one_gateway_may_always_be_evicted() -> None:
    """A budget for a single pod would block every node drain for good."""
    assert "PodDisruptionBudget" not in rendered(gateway(replicas=1))


def test_selectors_find_the_pods_and_only_them() -> None:
    objects = rendered(gateway())
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [objects["Deployment"]["spec"]["selector"]["matchLabels"], objects["Service"]["spec"]["selector"]]
    selectors.append(objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"])
    for selector in selectors:
        assert selector == {LABEL_SERVICE: "chat", LABEL_COMPONENT: COMPONENT_GATEWAY}
        assert labels.items() >= selector.items()


@pytest.mark.parametrize(
    ("changes", "rolls"),
    [({"gateway": {"queueTimeout": "5m"}}, True), ({"replicas": 7}, False), ({"replicas": 9}, True), ({"gateway": {"replicas": 3}}, False)],
)
def test_pods_roll_only_with_the_configuration(changes: dict[str, object], rolls: bool) -> None:
    def template(made: Service) -> Manifest:
        found: Manifest = rendered(made)["Deployment"]["spec"]["template"]
        return found

    before, after = template(service(small_spec())), template(service(small_spec(**changes)))
    digests = [made["metadata"]["annotations"][ANNOTATION_CONFIG_DIGEST] for made in (before, after)]
    assert (digests[0] != digests[1]) is rolls
    assert (before != after) is rolls


def test_the_agent_may_read_pods_and_nothing_else() -> None:
    objects = rendered(gateway())
    assert objects["Role"]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    (subject,) = objects["RoleBinding"]["subjects"]
    assert subject["name"] == objects["ServiceAccount"]["metadata"]["name"]


def test_the_token_is_the_agents_alone() -> None:
    spec = rendered(gateway())["Deployment"]["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    mounts = {container["name"]: {mount["name"] for mount in container["volumeMounts"]} for container in spec["containers"]}
    assert mounts == {"haproxy": {"config", "sockets"}, "agent": {"sockets", "routing", "api-access"}}


def test_containers_are_restricted() -> None:
    spec = rendered(gateway())["Deployment"]["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_the_grace_covers_leaving_waiting_and_streaming() -> None:
    made = service(small_spec(gateway={"queueTimeout": "90s"}, rollout={"drainTimeout": "30m"}))
    assert stop_grace_seconds(made) >= 90 + 1800
    assert "left=90;" in stop_script(made)


def test_the_clients_keys_are_the_agents_alone() -> None:
    spec = rendered(gateway(apiKeys={"secretName": "clients"}))["Deployment"]["spec"]["template"]["spec"]
    mounts = {container["name"]: {mount["name"] for mount in container["volumeMounts"]} for container in spec["containers"]}
    assert mounts == {"haproxy": {"config", "sockets"}, "agent": {"sockets", "routing", "api-keys", "api-access"}}
    assert {"name": "api-keys", "secret": {"secretName": "clients", "defaultMode": 0o440}} in spec["volumes"]
    assert "--api-keys" in spec["containers"][1]["args"]


def test_gateways_share_the_limit_of_a_key() -> None:
    config = haproxy_config("chat", gateway(apiKeys={"secretName": "clients", "maxConcurrentRequests": 5}).spec)
    assert "sc0_conn_cur gt 3" in config


def test_tls_is_on_443_and_probed_as_such() -> None:
    objects = rendered(gateway(tls={"secretName": "chat-tls"}))
    assert objects["Service"]["spec"]["ports"][0].items() >= {"name": "https", "port": 443, "appProtocol": "https"}.items()
    spec = objects["Deployment"]["spec"]["template"]["spec"]
    haproxy, agent = spec["containers"]
    assert haproxy["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert {"name": "MTPILOT_TLS_DIR", "value": TLS_DIR} in haproxy["env"]
    assert "--tls" in agent["args"]
    mount = {"name": "tls", "mountPath": TLS_DIR, "readOnly": True}
    assert all(mount in container["volumeMounts"] for container in (haproxy, agent)), (
        "the same path, by which HAProxy knows the certificate"
    )
    assert rendered(gateway())["Service"]["spec"]["ports"][0].items() >= {"name": "http", "port": 80}.items()


@pytest.mark.parametrize(
    ("changes", "keeps"),
    [
        ({}, True),
        ({"engine": {"env": [{"name": "OTHER", "value": "1"}]}}, True),
        ({"engine": {"env": [{"name": "SGLANG_TIMEOUT_KEEP_ALIVE", "value": "172800"}]}}, True),
        ({"engine": {"env": [{"name": "SGLANG_TIMEOUT_KEEP_ALIVE", "value": "5"}]}}, False),
        ({"engine": {"env": [{"name": "SGLANG_TIMEOUT_KEEP_ALIVE", "value": ""}]}}, False),
        ({"engine": {"podTemplate": {"spec": {"containers": [{"name": "engine", "env": [KEEP_ALIVE_OF_FIVE]}]}}}}, False),
        ({"engine": {"podTemplate": {"spec": {"containers": [{"name": "engine", "env": [KEEP_ALIVE_FROM_A_SECRET]}]}}}}, False),
        ({"engine": {"podTemplate": {"spec": {"containers": [{"name": "sidecar", "env": [KEEP_ALIVE_OF_FIVE]}]}}}}, True),
        ({"engine": {"podTemplate": {"spec": {"containers": ["no object", {"name": "engine", "env": "no list"}]}}}}, True),
        ({"engine": {"podTemplate": {"spec": "no object"}}}, True),
        ({"modes": {"mtp": {"maxRunningRequests": 8}, "batch": {"maxRunningRequests": 32, "extraArgs": ["--enable-http2"]}}}, False),
    ],
)
def test_connections_are_used_again_only_where_no_engine_closes_first(changes: dict[str, Any], keeps: bool) -> None:
    config = haproxy_config("chat", service(small_spec(**changes)).spec)
    assert ("http-reuse safe" in config) is keeps
    assert ("option http-server-close" in config) is not keeps


@pytest.mark.parametrize(("replicas", "servers"), [(0, 16), (1, 16), (8, 16), (9, 32), (16, 32), (64, 128)])
def test_every_replica_has_room_for_a_surge_pod(replicas: int, servers: int) -> None:
    config = haproxy_config("chat", service(small_spec(replicas=replicas)).spec)
    assert config.count(f"server-template r 0-{servers - 1} ") == 2, "the pool and the lane"


def test_a_class_of_engines_with_another_web_server_has_no_kept_connections() -> None:
    spec = service(small_spec()).spec
    assert "http-reuse safe" in haproxy_config("chat", spec, small_hardware().spec)
    assert "option http-server-close" in haproxy_config("chat", spec, small_hardware("--enable-http2").spec)


@pytest.mark.parametrize(
    ("template", "told", "names"),
    [
        ({}, (), None),
        ({"spec": {"imagePullSecrets": [{"name": "mirror"}]}}, (), ["mirror"]),
        ({}, ("mirror", "other"), ["mirror", "other"]),
        ({"spec": {"imagePullSecrets": [{"name": "own"}, {"name": "mirror"}]}}, ("mirror",), ["own", "mirror"]),
        ({"spec": {"imagePullSecrets": "no list"}}, (), None),
        ({"spec": {"imagePullSecrets": ["no object", {"name": 3}]}}, (), None),
    ],
)
def test_images_are_pulled_as_the_engines_are_and_as_the_operator_was_told(
    template: Any, told: tuple[str, ...], names: list[str] | None
) -> None:
    made = service(small_spec(engine={"podTemplate": template}))
    pod = gateway_pod_spec(made, GatewayImages(pull_secrets=told))
    assert pod.get("imagePullSecrets") == (None if names is None else [{"name": name} for name in names])
