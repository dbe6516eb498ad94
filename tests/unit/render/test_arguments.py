"""The argument list: what is always there, what a mode adds, and what is refused with the field to change."""

import json
from typing import Any

import pytest

from mtpilot.api.flags import DROPPED_FLAGS
from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.render.arguments import MANAGED_FLAGS, check_arguments, engine_arguments
from mtpilot.render.errors import InvalidArguments

from .samples import MODES, SAMPLES, Sample, small_hardware, small_spec


def arguments(mode: Mode = Mode.MTP, *class_args: str, **changes: Any) -> list[str]:
    return engine_arguments(InferenceServiceSpec.model_validate(small_spec(**changes)), small_hardware(*class_args).spec, mode)


def modes(mode: Mode, *extra: str, **fields: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"mtp": {"maxRunningRequests": 8}, "batch": {"maxRunningRequests": 32}}
    base[mode.value] |= {"extraArgs": list(extra), **fields}
    return base


def value(args: list[str], flag: str) -> str:
    assert args.count(flag) == 1
    return args[args.index(flag) + 1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_slots_and_memory_are_rendered_in_both_modes(sample: Sample, mode: Mode) -> None:
    args = engine_arguments(sample.service.spec, sample.hardware.spec, mode)
    limits = sample.service.spec.modes.mtp if mode is Mode.MTP else sample.service.spec.modes.batch
    assert value(args, "--max-running-requests") == str(limits.max_running_requests)
    assert value(args, "--mem-fraction-static") == limits.mem_fraction_static


def test_batch_has_no_speculation_and_mtp_has_all_of_it() -> None:
    assert not [arg for arg in arguments(Mode.BATCH) if "speculative" in arg]
    args = arguments(Mode.MTP)
    assert value(args, "--speculative-algorithm") == "NEXTN"
    assert value(args, "--speculative-num-steps") == "3"
    assert value(args, "--speculative-eagle-topk") == "1"
    assert value(args, "--speculative-num-draft-tokens") == "4"
    assert "--speculative-adaptive" not in args


def test_metrics_carry_the_mode_and_the_pods_uid() -> None:
    args = arguments(Mode.BATCH)
    assert "--enable-metrics" in args
    assert json.loads(value(args, "--extra-metric-labels")) == {"mode": "batch", "pod_uid": "$(POD_UID)"}


def test_the_server_listens_on_the_pods_address_and_asks_for_an_admin_key() -> None:
    args = arguments()
    assert value(args, "--host") == "$(POD_IP)"
    assert value(args, "--port") == "30000"
    assert value(args, "--admin-api-key") == "$(MTPILOT_ADMIN_API_KEY)"


def test_optional_model_fields_appear_only_when_set() -> None:
    assert not {"--revision", "--context-length"} & set(arguments())
    model = {"source": "hf://org/name", "revision": "abc", "contextLength": 4096, "servedName": "small"}
    args = arguments(model=model)
    assert value(args, "--revision") == "abc"
    assert value(args, "--context-length") == "4096"
    assert value(args, "--served-model-name") == "small"


def test_a_draft_model_is_resolved_like_the_model() -> None:
    mtp = {"maxRunningRequests": 8, "speculation": {"algorithm": "EAGLE3", "draftModel": "hf://org/draft"}}
    args = arguments(modes={"mtp": mtp, "batch": {"maxRunningRequests": 32}})
    assert value(args, "--speculative-draft-model-path") == "org/draft"


def test_a_mode_replaces_an_argument_of_the_class_whatever_its_spelling() -> None:
    args = arguments(Mode.MTP, "--tp-size", "4", "--stream-interval=2", modes=modes(Mode.MTP, "--tensor-parallel-size=2"))
    assert "--tp-size" not in args
    assert "--tensor-parallel-size=2" in args
    assert "--stream-interval=2" in args
    assert value(arguments(Mode.BATCH, "--tp-size", "4"), "--tp-size") == "4"


@pytest.mark.parametrize(("old", "new"), DROPPED_FLAGS.items())
@pytest.mark.parametrize("mode", MODES)
def test_a_dropped_flag_is_refused_by_name_with_the_new_one(mode: Mode, old: str, new: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        arguments(mode, modes=modes(mode, "--stream-interval", "2", old, "64"))
    assert caught.value.field == f"spec.modes.{mode.value}.extraArgs[2]"
    assert old in caught.value.problem
    assert new in caught.value.problem


def test_a_dropped_flag_of_the_class_is_refused_too() -> None:
    with pytest.raises(InvalidArguments, match=r"^HardwareClass spec\.engine\.args\[0\]: --cuda-graph-max-bs was dropped"):
        arguments(Mode.MTP, "--cuda-graph-max-bs=64")


@pytest.mark.parametrize("flag", sorted(MANAGED_FLAGS))
def test_a_flag_with_a_field_of_its_own_is_not_free(flag: str) -> None:
    words = [flag] if flag in {"--enable-metrics", "--speculative-adaptive"} else [flag, "1"]
    with pytest.raises(InvalidArguments, match=r"is not free"):
        arguments(Mode.MTP, modes=modes(Mode.MTP, *words))
    with pytest.raises(InvalidArguments, match=r"is not free"):
        arguments(Mode.BATCH, *words)


def test_an_alias_does_not_get_round_a_managed_flag() -> None:
    with pytest.raises(InvalidArguments, match=r"set spec\.model\.source"):
        arguments(Mode.MTP, modes=modes(Mode.MTP, "--model", "org/other"))


def test_speculation_is_refused_in_batch_mode() -> None:
    with pytest.raises(InvalidArguments, match="batch mode runs without speculation"):
        arguments(Mode.BATCH, modes=modes(Mode.BATCH, "--speculative-attention-mode", "decode"))
    assert "decode" in arguments(Mode.MTP, modes=modes(Mode.MTP, "--speculative-attention-mode", "decode"))


def test_an_abbreviation_that_argparse_would_take_is_unknown() -> None:
    with pytest.raises(InvalidArguments, match=r"has no flag --mem-fraction; did you mean --mem-fraction-static\?"):
        arguments(Mode.MTP, modes=modes(Mode.MTP, "--mem-fraction", "0.5"))


def test_another_release_may_have_flags_that_this_one_does_not_know() -> None:
    newer = {"image": "lmsysorg/sglang:v0.5.24"}
    args = arguments(Mode.MTP, modes=modes(Mode.MTP, "--flag-of-next-year", "1"), engine=newer)
    assert args[-2:] == ["--flag-of-next-year", "1"]
    with pytest.raises(InvalidArguments, match="was dropped"):
        arguments(Mode.MTP, modes=modes(Mode.MTP, "--cuda-graph-bs", "1"), engine=newer)


@pytest.mark.parametrize("image", ["lmsysorg/sglang:v0.5.23", "mirror:5000/sglang:0.5.23-runtime", "sglang:v0.5.23@sha256:00"])
def test_the_release_is_read_from_the_images_tag(image: str) -> None:
    with pytest.raises(InvalidArguments, match="has no flag --flag-of-next-year"):
        arguments(Mode.MTP, modes=modes(Mode.MTP, "--flag-of-next-year"), engine={"image": image})


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--tp-size", "2", "--tensor-parallel-size", "4"], r"^args\[2\]: --tensor-parallel-size is given twice \(first as args\[0\]\)"),
        (["--tp-size"], "takes one value, not 0"),
        (["--tp-size", "2", "4"], "takes one value, not 2"),
        (["--tp-size=2", "4"], "takes one value, not 2"),
        (["--trust-remote-code", "true"], "takes no value, not 1"),
        (["--cuda-graph-bs-decode"], "takes at least one value, not 0"),
        (["4", "--tp-size"], r"^args\[0\]: '4' is not a flag"),
        (["-h"], "is not a flag"),
    ],
)
def test_what_the_parser_would_refuse_or_misread(args: list[str], problem: str) -> None:
    with pytest.raises(InvalidArguments, match=problem):
        check_arguments(args)


def test_a_good_list_passes() -> None:
    check_arguments([])
    check_arguments(["--tp-size", "2", "--cuda-graph-bs-decode", "1", "2", "4", "--trust-remote-code"])


def test_adaptive_speculation_starts_only_with_a_step_of_its_table() -> None:
    def adaptive(steps: int, *extra: str) -> list[str]:
        speculation = {"numSteps": steps, "eagleTopk": 1, "numDraftTokens": steps + 1, "adaptive": True}
        return arguments(modes=modes(Mode.MTP, *extra, speculation=speculation))

    assert "--speculative-adaptive" in adaptive(3)
    with pytest.raises(InvalidArguments) as caught:
        adaptive(2)
    assert caught.value.field == "spec.modes.mtp.speculation.numSteps"
    assert "--speculative-adaptive-config" in adaptive(2, "--speculative-adaptive-config", "/models/adaptive.json")


def test_the_class_needs_no_arguments() -> None:
    plain = HardwareClassSpec.model_validate({"gpu": {"perReplica": 1, "memory": "96Gi"}})
    assert engine_arguments(InferenceServiceSpec.model_validate(small_spec()), plain, Mode.BATCH)[0] == "--model-path"
