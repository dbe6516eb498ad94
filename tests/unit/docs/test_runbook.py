"""The runbook has every reason, and no other."""

import re
from pathlib import Path

from mtpilot.model.reasons import Reason

RUNBOOK = Path(__file__).parents[3] / "docs" / "runbook.md"


def reasons_in_runbook() -> set[str]:
    rows = [line.split("|")[1] for line in RUNBOOK.read_text("utf-8").splitlines() if line.startswith("| `")]
    return {name for cell in rows for name in re.findall(r"`([A-Z][A-Za-z0-9]+)`", cell)}


def test_every_reason_has_a_row_and_every_row_a_reason():
    assert reasons_in_runbook() == {reason.value for reason in Reason}
