"""Engine pods as the API server gives them, in one line."""

from typing import Any

from mtpilot.model.names import ENGINE_CONTAINER, ENGINE_PORT, ENGINE_PORT_NAME, LABEL_MODE, LABEL_SERVING, LABEL_SLOT


def pod(
    slot: str = "chat-r0",
    address: str | None = "127.0.1.1",
    *,
    uid: str | None = None,
    ready: bool = True,
    serving: bool | None = True,
    terminating: bool = False,
    slots: int | None = 4,
    phase: str = "Running",
    restarts: int = 0,
    mode: str | None = None,
) -> dict[str, Any]:
    name = uid or f"{slot}-{address}"
    labels = {LABEL_SLOT: slot} | ({} if serving is None else {LABEL_SERVING: str(serving).lower()})
    labels |= {} if mode is None else {LABEL_MODE: mode}
    metadata: dict[str, Any] = {"name": name, "uid": name, "labels": labels}
    if terminating:
        metadata["deletionTimestamp"] = "2026-12-01T12:00:00Z"
    args = ["--model-path", "m", *(["--max-running-requests", str(slots)] if slots is not None else [])]
    engine = {"name": ENGINE_CONTAINER, "args": args, "ports": [{"name": ENGINE_PORT_NAME, "containerPort": ENGINE_PORT}]}
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "containerStatuses": [{"name": ENGINE_CONTAINER, "restartCount": restarts}],
    }
    if address is not None:
        status["podIP"] = address
    return {"metadata": metadata, "spec": {"containers": [{"name": "sidecar"}, engine]}, "status": status}
