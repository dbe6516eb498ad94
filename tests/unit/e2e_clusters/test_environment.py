"""Environment, command line and their mapping onto this machine."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from e2e.clusters.local.config import Image, Replacement
from e2e.clusters.local.node.container import Backoff
from e2e.clusters.local.node.environment import (
    ConfigError,
    Mapper,
    PodFacts,
    command_line,
    expand,
    field_value,
    references,
    resolve,
    resource_value,
)

POD: dict[str, Any] = {
    "metadata": {
        "name": "chat",
        "namespace": "team",
        "uid": "u",
        "labels": {"mtpilot.dev/mode": "mtp"},
        "annotations": {"b": "2", "a": "1"},
    },
    "spec": {},
}
FACTS = PodFacts(pod_ip="127.1.0.9", host_ip="127.0.0.1", node_name="h200-0")
OBJECTS = {
    ("ConfigMap", "map"): {"data": {"color": "blue"}},
    ("Secret", "secret"): {"data": {"key": base64.b64encode(b"hush").decode()}},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("$(A)/x", "1/x"), ("$$(A)", "$(A)"), ("$(MISSING)", "$(MISSING)"), ("$A", "$A"), ("$(A)$(B)", "12"), ("", "")],
)
def test_expand(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


def test_later_variables_see_earlier_ones_and_override_env_from() -> None:
    container = {
        "envFrom": [{"configMapRef": {"name": "map"}}, {"secretRef": {"name": "absent", "optional": True}}],
        "env": [
            {"name": "color", "value": "red"},
            {"name": "BOTH", "value": "$(color)-$(KEY)"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "key"}}},
            {"name": "GONE", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "other", "optional": True}}},
        ],
    }
    assert references(container) == {("ConfigMap", "map"), ("Secret", "absent"), ("Secret", "secret")}
    assert resolve(container, POD, FACTS, OBJECTS) == {"color": "red", "BOTH": "red-$(KEY)", "KEY": "hush"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "nope", "key": "k"}}, 'configmap "nope" not found'),
        ({"secretKeyRef": {"name": "secret", "key": "k"}}, "couldn't find key k in Secret team/secret"),
        ({"fieldRef": {"fieldPath": "status.nothing"}}, "unsupported field path: status.nothing"),
    ],
)
def test_missing_reference_is_a_config_error(source: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("'", ".")):
        resolve({"env": [{"name": "X", "valueFrom": source}]}, POD, FACTS, OBJECTS)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.labels['mtpilot.dev/mode']", "mtp"),
        ("metadata.annotations['absent']", ""),
        ("metadata.annotations", 'a="1"\nb="2"'),
        ("status.podIP", "127.1.0.9"),
        ("spec.serviceAccountName", "default"),
    ],
)
def test_field(path: str, value: str) -> None:
    assert field_value(path, POD, FACTS) == value


@pytest.mark.parametrize(
    ("limit", "divisor", "value"), [("1500m", "1", "2"), ("1500m", "1m", "1500"), ("2Gi", "1Mi", "2048"), ("2", "0", "2")]
)
def test_resource(limit: str, divisor: str, value: str) -> None:
    assert resource_value({"resource": "limits.x", "divisor": divisor}, {"resources": {"limits": {"x": limit}}}) == value


def test_command_wins_over_the_image_and_replacements_keep_the_rest() -> None:
    image = Image(
        match=["i"], entrypoint=["run"], default_arguments=["-d"], replacements=[Replacement(command=["python3", "-m", "x"], by=["sim"])]
    )
    assert command_line({}, image, {}) == ["run", "-d"]
    assert command_line({"args": ["$(P)"]}, image, {"P": "1"}) == ["run", "1"]
    assert command_line({"command": ["other"]}, image, {}) == ["other"]
    assert command_line({"command": ["python3", "-m", "x"], "args": ["-a"]}, image, {}) == ["sim", "-a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/etc/app/file", "/d/app/file"),
        ("--config=/etc/app", "--config=/d/app"),
        ("/etc/app/deep/file", "/d/deep/file"),
        ("/etc/application", "/etc/application"),
        ("/x/etc/app", "/x/etc/app"),
        ("a:/etc/app,/etc/app/deep", "a:/d/app,/d/deep"),
        ("0.0.0.0", "127.1.0.9"),
        ("http://0.0.0.0:80", "http://127.1.0.9:80"),
        ("10.0.0.0", "10.0.0.0"),
        ("version 0.0.0.0.1", "version 0.0.0.0.1"),
    ],
)
def test_mapper(text: str, expected: str) -> None:
    mapper = Mapper({"/etc/app": "/d/app", "/etc/app/deep/": "/d/deep"}, "127.1.0.9")
    assert mapper.text(text) == expected


@pytest.mark.parametrize(
    ("name", "fits"),
    [("lmsysorg/sglang:v1", True), ("docker.io/lmsysorg/sglang:v1", True), ("lmsysorg/sglang-router:v1", False), ("haproxy:2.8", False)],
)
def test_image_names(name: str, *, fits: bool) -> None:
    assert Image(match=["lmsysorg/sglang:*"]).fits(name) is fits


def test_backoff_is_none_then_doubles_to_its_bound_and_is_forgotten_after_a_long_run() -> None:
    backoff = Backoff(10.0, 40.0)
    assert [backoff.after(1.0) for _ in range(5)] == [0.0, 10.0, 20.0, 40.0, 40.0]
    assert backoff.after(600.0) == 0.0
