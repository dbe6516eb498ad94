"""The rules as data: each is named once, stands in a schema, and agrees with the renderer's own lists."""

import pytest

from mtpilot.api import flags
from mtpilot.api.cel import Reason, Rule, literal, value
from mtpilot.api.crds import documents
from mtpilot.api.field_rules import RESERVED_VARIABLES
from mtpilot.api.inference_service import InferenceServiceSpec, PolicySpec
from mtpilot.api.rules import every_rule
from mtpilot.render import arguments, environment
from mtpilot.render.known_flags import KNOWN_FLAGS


def test_names_are_unique():
    names = [rule.name for rule in every_rule()]
    assert sorted(names) == sorted(set(names))


def test_the_crds_have_exactly_these_rules():
    assert "".join(documents().values()).count("- rule:") == len(every_rule())


def test_a_value_reads_the_models_default():
    assert value(InferenceServiceSpec, "replicas") == "self.replicas"
    assert value(InferenceServiceSpec, "policy.minReplicas.mtp") == "self.?policy.?minReplicas.?mtp.orValue(0)"
    assert value(InferenceServiceSpec, "modes.mtp.speculation.adaptive") == "self.modes.mtp.?speculation.?adaptive.orValue(false)"
    assert value(PolicySpec, "mode") == "self.?mode.orValue('Auto')"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nothing", "no field nothing"),
        ("policy.pinned", "has no default"),
        ("replicas.mtp", "below a scalar"),
        ("model.revision", "has no default"),
    ],
)
def test_a_value_that_cannot_be_read_is_an_error(path, words):
    with pytest.raises(LookupError, match=words):
        value(InferenceServiceSpec, path)


def test_literals_are_quoted():
    assert [literal(item) for item in (True, 4, "it's \\")] == ["true", "4", r"'it\'s \\'"]


def test_a_rule_becomes_an_entry():
    rule = Rule(name="n", expression="true", message="m", message_expression="'m'", field_path=".f", reason=Reason.FORBIDDEN)
    assert rule.to_schema() == {
        "rule": "true",
        "message": "m",
        "messageExpression": "'m'",
        "fieldPath": ".f",
        "reason": "FieldValueForbidden",
    }
    assert set(Rule(name="n", expression="true", message="m").to_schema()) == {"rule", "message", "reason"}


@pytest.mark.parametrize(
    ("argument", "flag"),
    [
        ("--port", "--port"),
        ("--port=1", "--port"),
        ("--max-run", "--max-running-requests"),
        ("--model", "--model-path"),
        ("--model-impl", None),
        ("--enable-metrics-for-all-schedulers", None),
        ("--", None),
        ("port", None),
        ("--nnodes=2", "--nnodes"),
    ],
)
def test_closed_flags_are_seen_in_full_and_abbreviated(argument, flag):
    assert flags.closed_flag(argument) == flag


def test_no_flag_of_sglang_is_closed_by_being_a_prefix_of_another():
    every = (*flags.RENDERED_FLAGS, *flags.UNSUPPORTED_FLAGS, *flags.SPECULATION_FLAGS)
    prefixes = {known for known in KNOWN_FLAGS for flag in every if flag.startswith(known)} - set(every)
    # NB: both are aliases of the rendered flag itself.
    assert prefixes == {"--model", "--speculative-draft-model"}


def test_api_and_renderer_close_the_same_flags():
    every = {*flags.RENDERED_FLAGS, *flags.UNSUPPORTED_FLAGS, *flags.SPECULATION_FLAGS}
    assert {KNOWN_FLAGS[flag].name for flag in every} == set(arguments.MANAGED_FLAGS)


def test_api_and_renderer_reserve_the_same_variables():
    assert set(RESERVED_VARIABLES) == environment.RESERVED_VARIABLES


def test_what_replaces_a_dropped_flag_exists():
    new = {word.split("=")[0] for text in flags.DROPPED_FLAGS.values() for word in text.split() if word.startswith("--")}
    assert new <= set(KNOWN_FLAGS)
