"""Digests: the same for the same content, another for any other argument."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtpilot.api.inference_service import Mode
from mtpilot.model.names import ANNOTATION_DIGEST, LABEL_SLOT, LABEL_TEMPLATE_DIGEST
from mtpilot.render.digest import digest, object_digest, pod_template_digest, with_digest
from mtpilot.render.engine import pod_template

from .samples import CHAT, MODES, SAMPLES, Sample, small_hardware

SAMPLE = CHAT
TEMPLATE = pod_template("chat", SAMPLE.service.spec, SAMPLE.hardware.spec, Mode.MTP, slot="chat-r0")


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        names = order.sample(list(value), len(value))
        return {name: shuffled(value[name], order) for name in names}
    return [shuffled(entry, order) for entry in value] if isinstance(value, list) else value


@given(seed=st.integers(0, 10**6))
def test_key_order_does_not_matter(seed: int) -> None:
    assert pod_template_digest(shuffled(TEMPLATE, random.Random(seed))) == pod_template_digest(TEMPLATE)


@given(index=st.integers(0, len(TEMPLATE["spec"]["containers"][0]["args"]) - 1), text=st.text('a1-=é "\\', max_size=8))
def test_any_other_argument_is_another_digest(index: int, text: str) -> None:
    args = list(TEMPLATE["spec"]["containers"][0]["args"])
    args[index] = args[index] + "x" + text
    container = {**TEMPLATE["spec"]["containers"][0], "args": args}
    changed = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "containers": [container]}}
    assert pod_template_digest(changed) != pod_template_digest(TEMPLATE)


def test_the_label_is_the_digest_of_the_rest() -> None:
    labels = TEMPLATE["metadata"]["labels"]
    assert labels[LABEL_TEMPLATE_DIGEST] == pod_template_digest(TEMPLATE)
    assert labels[LABEL_SLOT] == "chat-r0"
    other = pod_template("chat", SAMPLE.service.spec, SAMPLE.hardware.spec, Mode.MTP, slot="chat-r3")
    assert pod_template_digest(other) == pod_template_digest(TEMPLATE)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_the_two_modes_never_share_a_digest(sample: Sample) -> None:
    digests = {pod_template_digest(pod_template("chat", sample.service.spec, sample.hardware.spec, mode, slot="chat-r0")) for mode in MODES}
    assert len(digests) == len(MODES)


def test_a_change_of_the_class_is_another_digest() -> None:
    spec = SAMPLE.service.spec
    digests = {
        pod_template_digest(pod_template("chat", spec, on.spec, Mode.MTP, slot="chat-r0"))
        for on in (small_hardware(), small_hardware("--tp-size", "2"), small_hardware(nodeSelector={"a": "b"}))
    }
    assert len(digests) == 3


def test_known_values_do_not_move_between_releases_of_the_operator() -> None:
    assert digest({}) == "44136fa355b3"
    assert digest({"b": [1, "é"], "a": None}) == "f8f17faab95c"


def test_an_objects_digest_leaves_itself_out() -> None:
    plain = {"kind": "X", "metadata": {"name": "a"}}
    stamped = with_digest(plain)
    assert stamped["metadata"]["annotations"] == {ANNOTATION_DIGEST: object_digest(plain)}
    assert with_digest(stamped) == stamped
    assert "annotations" not in plain["metadata"]
    assert object_digest({"kind": "X", "metadata": {"name": "b"}}) != object_digest(plain)


def test_what_json_cannot_say_has_no_digest() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        digest({"a": float("nan")})
