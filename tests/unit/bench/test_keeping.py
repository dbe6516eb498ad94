"""What a run keeps in a ConfigMap, and that another pod goes on from it."""

import random
from pathlib import Path
from typing import Any

import pytest

from mtpilot.adapters.kube.calibration import records_from_object
from mtpilot.api.inference_service import Mode
from mtpilot.bench.keeping import LARGEST_BYTES, Shelf, TooLargeError, packed, unpacked
from mtpilot.bench.ledger import Ledger
from mtpilot.evidence.package import ENVIRONMENT, RECORDS
from mtpilot.model.measuring import RunProgress, RunState

FILES = {ENVIRONMENT: b"{}\n", RECORDS: b'{"kind": "batch"}\n' * 3}


class Client:
    """One ConfigMap behind a merge patch."""

    def __init__(self) -> None:
        self.object: dict[str, Any] = {"metadata": {"name": "chat-calibration", "uid": "u1"}, "data": {"run": ""}}

    async def get(self, ref: Any) -> dict[str, Any]:
        assert ref.path == "/api/v1/namespaces/team-a/configmaps/chat-calibration"
        return self.object

    async def patch(self, ref: Any, body: dict[str, dict[str, str | None] | None]) -> None:
        for key, values in body.items():
            merged = {**self.object.get(key, {}), **(values or {})}
            self.object[key] = {name: value for name, value in merged.items() if value is not None} if values is not None else {}


def shelf(client: Client) -> Shelf:
    return Shelf(client, namespace="team-a", name="chat-calibration")  # type: ignore[arg-type]


async def test_another_pod_finds_what_was_kept():
    client = Client()
    assert await shelf(client).begin() == {}
    await shelf(client).tell("mtp", RunProgress(state=RunState.MEASURING, done=1, total=9), FILES)
    await shelf(client).tell("mtp", RunProgress(state=RunState.MEASURING, done=2, total=9))
    assert await shelf(client).begin() == FILES
    assert records_from_object(client.object).progress[Mode.MTP].done == 2


async def test_what_another_run_left_is_taken_away():
    client = Client()
    await shelf(client).tell("mtp", RunProgress(state=RunState.MEASURED, done=9, total=9), FILES)
    client.object["metadata"]["annotations"] = {"mtpilot.dev/calibration": "two"}
    assert records_from_object(client.object).progress == {}
    assert await shelf(client).begin() == {}
    assert (client.object["data"], client.object["binaryData"]) == ({"run": "two"}, {})


async def test_both_modes_stand_beside_each_other_with_what_they_give():
    client = Client()
    measured = RunProgress(state=RunState.MEASURED, done=9, total=9)
    await shelf(client).conclude("mtp", measured, tables=b"{}")
    await shelf(client).conclude("batch", measured, problem="answers leaked")
    found = records_from_object(client.object)
    assert (found.is_measured(Mode.MTP), found.is_measured(Mode.BATCH), found.problem) == (True, True, "answers leaked")
    assert client.object["data"]["tables.json"] == "{}"


async def test_what_does_not_fit_is_refused_with_a_remedy():
    noise = random.Random(1).randbytes(LARGEST_BYTES + 1024)
    with pytest.raises(TooLargeError, match="recordsClaim"):
        await shelf(Client()).tell("mtp", RunProgress(state=RunState.MEASURING), {RECORDS: noise})


def test_the_same_files_are_the_same_bytes():
    assert packed(FILES) == packed(dict(reversed(FILES.items())))
    assert unpacked(packed(FILES)) == FILES


def test_a_ledger_is_put_back_and_gone_on_with(tmp_path: Path):
    ledger = Ledger(tmp_path / "run")
    assert ledger.files() == {}
    ledger.restore(FILES)
    assert ledger.is_begun
    assert ledger.files() == FILES
