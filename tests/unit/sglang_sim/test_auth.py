"""Keys: who is refused where, as SGLang decides it."""

import pytest

from sglang_sim.auth import refusal


@pytest.mark.parametrize(
    ("path", "api_key", "admin_api_key", "sent", "status"),
    [
        ("/generate", None, None, None, None),
        ("/generate", "k", None, None, 401),
        ("/generate", "k", None, "Bearer k", None),
        ("/generate", None, "a", None, None),
        ("/generate", "k", "a", "Bearer a", 401),
        ("/ready", "k", None, None, 401),
        ("/health", "k", "a", None, None),
        ("/health_generate", "k", "a", None, None),
        ("/metrics", "k", "a", None, None),
        ("/flush_cache", None, None, None, None),
        ("/flush_cache", "k", None, "Bearer k", None),
        ("/flush_cache", None, "a", None, 401),
        ("/pause_generation", "k", "a", "Bearer k", 401),
        ("/pause_generation", "k", "a", "bearer a", None),
        ("/set_internal_state", None, "a", "Basic a", 401),
    ],
)
def test_who_may_call_what(path, api_key, admin_api_key, sent, status):
    assert refusal(method="GET", path=path, authorization=sent, api_key=api_key, admin_api_key=admin_api_key) == status
