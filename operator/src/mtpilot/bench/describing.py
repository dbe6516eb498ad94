"""An engine as its own /server_info describes it, without its secrets."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from mtpilot.api.inference_service import Mode
from mtpilot.evidence.environment import Engine
from mtpilot.render.errors import InvalidArguments
from mtpilot.render.flags_digest import arguments_sha256

from .planning import Target

MIXED = "mixed"
MODES = (*(mode.value for mode in Mode), MIXED)
# Of /server_info, but no arguments.
_NO_ARGUMENTS = frozenset(
    ("internal_states", "version", "status", "startup_time", "frontend", "launch_command", "max_total_num_tokens", "max_req_input_len")
)
_SECRETS = ("api_key", "admin_api_key", "ssl_keyfile_password")
_REDACTED = "<redacted>"
_TARGET = re.compile(r"(?:(?P<mode>[a-z]+)(?:@(?P<route>[A-Za-z0-9._-]+))?=)?(?P<url>https?://.+)")
_DEFAULT_SPECULATIVE_SLOTS = 48


def parse_target(text: str) -> Target:
    """`URL`, `MODE=URL` or `MODE@ROUTE=URL`; a mode that is not told is empty until the engine is asked.

    Raises:
        ValueError: it is none of these.
    """
    found = _TARGET.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is neither URL nor MODE=URL nor MODE@ROUTE=URL, with http:// or https://")
    mode = found["mode"] or ""
    if mode and mode not in MODES:
        raise ValueError(f"{text!r}: the mode is one of {', '.join(MODES)}")
    return Target(mode=mode, route=found["route"] or "direct", url=found["url"].rstrip("/"))


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


def lifetime_accept_length(info: Mapping[str, Any]) -> float | None:
    """Since the start or the last flush, as a mean over the ranks that tell it."""
    states = [state for state in info.get("internal_states") or () if isinstance(state, dict)]
    found = [float(value) for state in states if isinstance(value := state.get("avg_spec_accept_length"), int | float)]
    return sum(found) / len(found) if found else None


def engine_of(
    info: Mapping[str, Any] | None, target: Target, *, model: str, hardware_class: str | None = None, image: str | None = None
) -> Engine:
    """An engine's description; of a gateway, which has no /server_info, only what the target says."""
    plain = _without_secrets(info or {})
    words = _words(plain)
    return Engine(
        mode=target.mode,
        route=target.route,
        url=target.url,
        engine=f"sglang {plain['version']}" if plain.get("version") else "",
        model=model,
        slots=target.slots,
        asked_slots=plain.get("max_running_requests"),
        launch_command=plain.get("launch_command"),
        arguments={name: value for name, value in plain.items() if name not in _NO_ARGUMENTS},
        server_info=plain,
        flags_sha256=_digest({target.mode: words}) or "",
        hardware_class=hardware_class,
        image=image,
    )


def flags_of_both(engines: Sequence[Engine]) -> str | None:
    """The digest that a profile carries; None unless there is one launch command for each mode."""
    by_mode = {engine.mode: _words(engine.server_info) for engine in engines if engine.launch_command and engine.mode in tuple(Mode)}
    return _digest({mode.value: by_mode[mode.value] for mode in Mode}) if len(by_mode) == len(Mode) else None


def slot_warnings(engines: Sequence[Engine]) -> list[str]:
    """Engines whose slots are nobody's choice, or fewer than asked for."""
    found = []
    for engine in engines:
        name = Target(mode=engine.mode, route=engine.route, url=engine.url).name
        told = "--max-running-requests" in (engine.launch_command or "")
        if engine.mode == Mode.MTP and engine.asked_slots == _DEFAULT_SPECULATIVE_SLOTS and not told:
            found.append(
                f"{name}: {_DEFAULT_SPECULATIVE_SLOTS} slots are only SGLang's default with speculation: set --max-running-requests"
            )
        elif engine.slots is not None and engine.asked_slots is not None and engine.slots < engine.asked_slots:
            found.append(f"{name}: {engine.slots} slots fit of the {engine.asked_slots} asked for (mtpilot capacity says what binds)")
    return found


def _words(info: Mapping[str, Any]) -> list[str]:
    """The options of a launch command."""
    try:
        words = shlex.split(str(info.get("launch_command") or ""))
    except ValueError:
        return []
    first = next((at for at, word in enumerate(words) if word.startswith("--")), len(words))
    return words[first:]


def _digest(arguments: Mapping[str, list[str]]) -> str | None:
    try:
        return arguments_sha256(arguments)
    except InvalidArguments:
        return None


def _without_secrets(info: Mapping[str, Any]) -> dict[str, Any]:
    """Also in the launch command, and in each rank's copy of the arguments."""
    secrets = [str(info[name]) for name in _SECRETS if info.get(name) and info[name] != _REDACTED]

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): _REDACTED if key in _SECRETS and item else plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, str):
            for secret in secrets:
                value = value.replace(secret, _REDACTED)
        return value

    return dict(plain(info))
