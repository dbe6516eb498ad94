"""The environment and the fault document: read with names in the errors, and nothing taken silently."""

import json

import pytest

from sglang_sim import faults, settings


def test_the_environment_is_read():
    chosen = settings.from_environment(
        {
            "SGLANG_SIM_LOAD_SECONDS": "1.5",
            "SGLANG_SIM_NEVER_READY": "batch, mtp",
            "SGL_FORCE_SHUTDOWN": "1",
            "SGLANG_SIM_ACCEPT_LENGTH": "1.7",
        }
    )
    assert (chosen.load_seconds, chosen.never_ready, chosen.force_shutdown, chosen.accept_length) == (1.5, ("batch", "mtp"), True, 1.7)
    assert settings.from_environment({}) == settings.Settings()


@pytest.mark.parametrize(("name", "value"), [("TIME_SCALE", "fast"), ("TIME_SCALE", "0"), ("LOAD_SECONDS", "-1"), ("SEED", "nan")])
def test_a_bad_value_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"SGLANG_SIM_{name}"):
        settings.from_environment({f"SGLANG_SIM_{name}": value})


def test_the_fault_file_is_read_anew_at_every_start(tmp_path):
    file = tmp_path / "faults.json"
    chosen = settings.Settings(fault_file=str(file), crash_on_start=("mtp",))
    assert faults.at_start(chosen).crash_on_start == ["mtp"]
    file.write_text(json.dumps({"crash_on_start": ["batch"], "ready": False}))
    assert faults.at_start(chosen).crash_on_start == ["batch"]
    assert faults.at_start(chosen).ready is False
    file.write_text("")
    assert faults.at_start(chosen).ready is True


@pytest.mark.parametrize(
    "document",
    [
        {"hangs": True},
        {"hang": 1},
        {"rows": "mix"},
        {"nan_gauges": "all"},
        {"slow_factor": None},
        {"health_seconds": -1},
        {"crash_on_start": [1]},
    ],
)
def test_a_fault_that_is_not_one_is_refused(document):
    with pytest.raises(ValueError, match=next(iter(document))):
        faults.Faults().update(document)


def test_clearing_brings_a_healthy_server_back():
    sick = faults.Faults()
    sick.update({"hang": True, "nan_gauges": ["*"], "rows": "swap", "accept_length": 1.2})
    sick.clear()
    assert sick.document() == faults.Faults().document()
