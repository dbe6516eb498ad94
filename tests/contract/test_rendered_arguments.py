"""What is rendered is what SGLang 0.5.23 parses: every sample in both modes, with the real flag list.

The simulator's parser is rebuilt from a dump of the real one and exits 2 where the real one does.
"""

import re

import pytest

from mtpilot.api.flags import DROPPED_FLAGS, RENDERED_FLAGS, SPECULATION_FLAGS, UNSUPPORTED_FLAGS
from mtpilot.api.inference_service import Mode
from mtpilot.render.arguments import MANAGED_FLAGS, engine_arguments
from mtpilot.render.container import ENGINE_COMMAND, engine_container
from mtpilot.render.known_flags import KNOWN_FLAGS
from sglang_sim.flags import DEPRECATED, known_flags, parse
from tests.sample_files import Sample as Document
from tests.sample_files import samples
from tests.unit.render.samples import MODES, SAMPLES, Sample, service, small_hardware

EVERY_SAMPLE = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
EVERY_MODE = pytest.mark.parametrize("mode", MODES)


def filled_in(args: list[str]) -> list[str]:
    """The arguments as the kubelet passes them on."""
    values = {
        "POD_IP": "127.1.0.1",
        "POD_UID": "6f1c-uid",
        "MTPILOT_ADMIN_API_KEY": "key",
        "LWS_LEADER_ADDRESS": "a.b",
        "LWS_WORKER_INDEX": "1",
    }
    return [re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], arg) for arg in args]


@EVERY_MODE
@EVERY_SAMPLE
def test_every_sample_is_parsed_as_it_was_meant(sample: Sample, mode: Mode) -> None:
    spec = sample.service.spec
    parsed = parse(filled_in(engine_arguments(spec, sample.hardware.spec, mode)))
    limits = spec.modes.mtp if mode is Mode.MTP else spec.modes.batch
    assert parsed.max_running_requests == limits.max_running_requests
    assert parsed.mem_fraction_static == float(limits.mem_fraction_static)
    assert parsed.tp_size == sample.hardware.spec.gpu.per_replica
    assert parsed.nnodes == sample.hardware.spec.nodes_per_replica
    assert parsed.context_length == spec.model.context_length
    assert parsed.host == "127.1.0.1"
    assert parsed.port == 30000
    assert parsed.enable_metrics is True
    assert parsed.extra_metric_labels == {"mode": mode.value, "pod_uid": "6f1c-uid"}
    assert parsed.admin_api_key == "key"
    assert parsed.speculative_algorithm == (spec.modes.mtp.speculation.algorithm.value if mode is Mode.MTP else None)
    assert parsed.speculative_adaptive is (mode is Mode.MTP and spec.modes.mtp.speculation.adaptive)


@EVERY_MODE
@pytest.mark.parametrize("document", [sample for sample in samples("accept") if sample.kind == "InferenceService"], ids=str)
def test_what_the_crd_accepts_is_rendered_and_parsed(document: Document, mode: Mode) -> None:
    spec = service(document.document["spec"]).spec
    parsed = parse(filled_in(engine_arguments(spec, small_hardware().spec, mode)))
    assert parsed.max_running_requests == (spec.modes.mtp if mode is Mode.MTP else spec.modes.batch).max_running_requests


@EVERY_MODE
@EVERY_SAMPLE
def test_the_whole_command_line_is_what_the_launcher_takes(sample: Sample, mode: Mode) -> None:
    container = engine_container(sample.service.name, sample.service.spec, sample.hardware.spec, mode)
    assert parse([*container["command"], *filled_in(container["args"])]).served_model_name
    assert container["command"] == list(ENGINE_COMMAND)


@pytest.mark.parametrize("flag", sorted(set(DROPPED_FLAGS) - set(DEPRECATED)))
def test_the_parser_refuses_every_dropped_flag(flag: str) -> None:
    sample = SAMPLES[0]
    args = filled_in(engine_arguments(sample.service.spec, sample.hardware.spec, Mode.BATCH))
    with pytest.raises(SystemExit) as caught:
        parse([*args, flag, "64"])
    assert caught.value.code == 2


def test_what_is_deprecated_is_refused_before_it_is_dropped() -> None:
    assert set(DEPRECATED) <= set(DROPPED_FLAGS)


@pytest.mark.parametrize("text", sorted(DROPPED_FLAGS.values()))
def test_what_is_named_instead_of_a_dropped_flag_exists(text: str) -> None:
    for flag in re.findall(r"--[a-z-]+", text):
        assert flag in KNOWN_FLAGS


def test_there_is_advice_for_every_closed_flag() -> None:
    closed = {KNOWN_FLAGS[flag].name for flag in (*RENDERED_FLAGS, *SPECULATION_FLAGS, *UNSUPPORTED_FLAGS)}
    assert closed == set(MANAGED_FLAGS)


def test_the_operators_flag_list_is_the_parsers() -> None:
    arity = {None: "1", 0: "0"}
    parsers: dict[str, tuple[str, str]] = {}
    for flag in known_flags():
        nargs = 0 if flag["action"] in {"_StoreTrueAction", "BooleanOptionalAction", "DeprecatedStoreTrueAction"} else flag.get("nargs")
        parsers |= dict.fromkeys(flag["names"], (flag["names"][0], arity.get(nargs, nargs)))
    assert {name: (flag.name, flag.values) for name, flag in KNOWN_FLAGS.items()} == parsers
