"""Of all tests."""

from __future__ import annotations

from hypothesis import settings

from tests.examples import examples

settings.register_profile("mtpilot", examples())
settings.load_profile("mtpilot")
