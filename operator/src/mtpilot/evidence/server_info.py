"""What SGLang's /server_info says of an engine, without its secrets."""

import re
from collections.abc import Mapping
from typing import Any

from mtpilot.api.inference_service import Mode

# Of /server_info, but no arguments.
_NO_ARGUMENTS = frozenset(
    ("internal_states", "version", "status", "startup_time", "frontend", "launch_command", "max_total_num_tokens", "max_req_input_len")
)
_SECRETS = ("api_key", "admin_api_key", "ssl_keyfile_password")
_REDACTED = "<redacted>"
# NB: where the engine hides a key's own field, its launch command may still have it.
_SECRET_WORDS = re.compile(r"""(--(?:admin|api|ssl-keyfile-p)[a-z-]*)(=|\s+)('[^']*'|"[^"]*"|\S+)""")


def mode_of(info: Mapping[str, Any]) -> str:
    """mtp where the engine drafts."""
    return Mode.MTP.value if info.get("speculative_algorithm") else Mode.BATCH.value


def slots_of(info: Mapping[str, Any]) -> int | None:
    """Effective limit of running requests over all data-parallel ranks; None where the engine does not tell.

    NB: max_running_requests at the top is what was asked for, and says nothing of what fits.
    """
    states = info.get("internal_states")
    if not isinstance(states, list) or not states:
        return None
    found = [state.get("effective_max_running_requests_per_dp") for state in states if isinstance(state, dict)]
    whole = [slots for slots in found if isinstance(slots, int) and not isinstance(slots, bool)]
    return sum(whole) if whole and len(whole) == len(states) else None


def arguments_of(info: Mapping[str, Any]) -> dict[str, Any]:
    """The resolved arguments."""
    return {name: value for name, value in info.items() if name not in _NO_ARGUMENTS}


def without_secrets(info: Mapping[str, Any]) -> dict[str, Any]:
    """The same with keys and passwords redacted, also in the launch command and in each rank's copy of the arguments."""
    secrets = [str(info[name]) for name in _SECRETS if info.get(name) and info[name] != _REDACTED]

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): _REDACTED if key in _SECRETS and item else plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, str):
            for secret in secrets:
                value = value.replace(secret, _REDACTED)
            return _SECRET_WORDS.sub(rf"\1\2{_REDACTED}", value)
        return value

    return dict(plain(info))
