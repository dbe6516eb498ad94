"""An engine as its own /server_info describes it, without its secrets."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from mtpilot.api.inference_service import Mode
from mtpilot.evidence.environment import Engine
from mtpilot.evidence.server_info import arguments_of, without_secrets
from mtpilot.render.errors import InvalidArguments
from mtpilot.render.flags_digest import arguments_sha256

from .planning import Target

MIXED = "mixed"
MODES = (*(mode.value for mode in Mode), MIXED)
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


def lifetime_accept_length(info: Mapping[str, Any]) -> float | None:
    """Since the start or the last flush, as a mean over the ranks that tell it."""
    states = [state for state in info.get("internal_states") or () if isinstance(state, dict)]
    found = [float(value) for state in states if isinstance(value := state.get("avg_spec_accept_length"), int | float)]
    return sum(found) / len(found) if found else None


def engine_of(
    info: Mapping[str, Any] | None, target: Target, *, model: str, hardware_class: str | None = None, image: str | None = None
) -> Engine:
    """An engine's description; of a gateway, which has no /server_info, only what the target says."""
    plain = without_secrets(info or {})
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
        arguments=arguments_of(plain),
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
