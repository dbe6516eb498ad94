"""Of all tests."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.examples import examples

FAIL_ON_SKIP = "MTPILOT_FAIL_ON_SKIP"

settings.register_profile("mtpilot", examples())
settings.load_profile("mtpilot")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A missing tool skips a test on a workstation, and fails it where `MTPILOT_FAIL_ON_SKIP` is set: CI tests what it says it tests."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get(FAIL_ON_SKIP):
        report.outcome = "failed"
        report.longrepr = (
            f"skipped, and {FAIL_ON_SKIP} is set: {report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr}"
        )
    return report
