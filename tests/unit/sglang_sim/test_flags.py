"""The command line that the simulator takes is SGLang 0.5.23's."""

import pytest

from sglang_sim import flags


def test_every_recorded_option_is_known_to_the_parser():
    known = set(flags.parser()._option_string_actions)
    missing = {name for flag in flags.known_flags() for name in flag["names"]} - known
    assert len(flags.known_flags()) == 531
    assert missing == set()


def test_values_get_the_real_types_and_defaults():
    given = flags.parse(
        ["--model-path", "m", "--max-running-requests", "96", "--mem-fraction-static", "0.8", "--context-length", "32k", "--tp", "4"]
    )
    assert (given.max_running_requests, given.mem_fraction_static, given.context_length, given.tp_size) == (96, 0.8, 32_000, 4)
    assert (given.port, given.stream_interval, given.decode_log_interval, given.enable_metrics) == (30000, 1, 40, False)


def test_a_unique_abbreviation_passes_as_in_the_real_parser():
    assert flags.parse(["--model-path", "m", "--speculative-algo", "NEXTN"]).speculative_algorithm == "NEXTN"


@pytest.mark.parametrize(("old", "new"), sorted(flags.REMOVED.items()))
@pytest.mark.parametrize("form", ["split", "joined"])
def test_a_removed_option_exits_2_and_names_its_replacement(old, new, form, capsys):
    words = [old, "4"] if form == "split" else [f"{old}=4"]
    with pytest.raises(SystemExit) as caught:
        flags.parse(["--model-path", "m", *words])
    assert caught.value.code == 2
    assert new in capsys.readouterr().err.split()[-1]


@pytest.mark.parametrize(
    "words",
    [
        ["--disable-spec-v2"],
        ["--max-running-requests", "many"],
        ["--mamba-radix-cache-strategy", "best"],
        ["stray"],
        ["--cuda-graph-bs-dec", "1", "x"],
    ],
)
def test_what_the_real_parser_refuses_exits_2(words, capsys):
    with pytest.raises(SystemExit) as caught:
        flags.parse(["--model-path", "m", *words])
    assert caught.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_a_command_line_without_a_model_exits_2(capsys):
    with pytest.raises(SystemExit) as caught:
        flags.parse(["--port", "1"])
    assert caught.value.code == 2
    assert "--model-path" in capsys.readouterr().err


@pytest.mark.parametrize(
    "launcher",
    [
        ["serve", "m"],
        ["serve", "--model-path", "m"],
        ["sglang", "serve", "m"],
        ["-m", "sglang.launch_server", "--model-path", "m"],
        ["python3", "-m", "sglang.launch_server", "--model", "m"],
        ["/usr/bin/python", "-m", "sglang.launch_server", "--model", "m"],
    ],
)
def test_each_form_of_launch_is_the_same_command_line(launcher):
    given = flags.parse([*launcher, "--port", "31000"])
    assert (given.model_path, given.port) == ("m", 31000)


def test_booleans_lists_and_json_are_read_like_the_real_ones():
    given = flags.parse(
        [
            "--model-path",
            "m",
            "--no-dllm-fdfo",
            "--cuda-graph-bs-decode",
            "1",
            "2",
            "4",
            "--extra-metric-labels",
            '{"mode":"mtp"}',
            "--cuda-graph-backend-decode",
            "disabled",
        ]
    )
    assert given.dllm_fdfo is False
    assert given.cuda_graph_bs_decode == [1, 2, 4]
    assert given.extra_metric_labels == {"mode": "mtp"}
    assert given.cuda_graph_backend_decode == "disabled"


def test_a_deprecated_option_warns_and_passes(capsys):
    assert flags.parse(["--model-path", "m", "--disable-cuda-graph"]).disable_cuda_graph is True
    assert "--cuda-graph-backend-decode=disabled" in capsys.readouterr().err
