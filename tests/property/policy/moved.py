"""What the guards look at in a fleet that has made moves."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from mtpilot.api.inference_service import Mode
from mtpilot.model.decision import FleetState, Mix


def fleet_after(
    moves: Sequence[tuple[datetime, Mode]], now: datetime, mix: Mix, *, ready: int, moving: str | None, flip_seconds: float
) -> FleetState:
    """moves: when and to which mode, oldest first."""
    recent = [at for at, _ in moves if now - at < timedelta(hours=1)]
    last_at, last_to = moves[-1] if moves else (None, None)
    return FleetState(
        mix=mix,
        replicas=mix.total,
        ready=ready,
        moving=moving,
        last_move_at=last_at,
        last_move_to=last_to,
        moves_last_hour=len(recent),
        oldest_move_last_hour_at=recent[0] if recent else None,
        failed_modes={},
        gpus_free=0,
        gpus_per_replica=4,
        expected_flip_seconds=flip_seconds,
    )
