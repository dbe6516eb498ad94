"""Every CamelCase reason, once: of conditions, decisions, holds, events and history.

docs/runbook.md has a section for each; a test holds the two lists equal.
"""

from enum import StrEnum


class Reason(StrEnum):
    # decisions: a move
    DEMAND_ABOVE_MTP_CAPACITY = "DemandAboveMtpCapacity"
    REQUESTS_QUEUED = "RequestsQueued"
    DEMAND_FITS_MTP = "DemandFitsMtp"
    CHEAPER_AFTER_MOVE = "CheaperAfterMove"
    LATENCY_TARGET_MISSED = "LatencyTargetMissed"
    PROFILE_MTP_ONLY = "ProfileMtpOnly"
    PROFILE_BATCH_ONLY = "ProfileBatchOnly"
    PINNED_MIX = "PinnedMix"
    BELOW_MIN_REPLICAS = "BelowMinReplicas"
    # decisions: a hold
    STEADY = "Steady"
    STABILIZING = "Stabilizing"
    CAPACITY_UNKNOWN = "MtpCapacityUnknown"
    STAYING_IS_CHEAPER = "StayingIsCheaper"
    NOT_WORTH_THE_WAY_BACK = "NotWorthTheWayBack"
    CURVES_UNCERTAIN = "CurvesUncertain"
    MIN_DWELL = "MinDwell"
    FLIP_BUDGET_SPENT = "FlipBudgetSpent"
    MOVE_IN_FLIGHT = "MoveInFlight"
    MIN_REPLICAS = "MinReplicasReached"
    ALL_REPLICAS_THERE = "NothingLeftToMove"
    WOULD_MOVE_BACK = "WouldMoveBack"
    PEERS_TOO_BUSY = "PeersTooBusy"
    DOWNTIME_NOT_ALLOWED = "DowntimeNotAllowed"
    NO_SURGE_CAPACITY = "NoSurgeCapacity"
    FLIP_FAILED_BACK_OFF = "FlipFailedBackOff"
    RECOMMEND_ONLY = "RecommendOnly"
    REPLICAS_NOT_READY = "ReplicasNotReady"
    CALIBRATING = "Calibrating"
    # metrics
    METRICS_FRESH = "MetricsFresh"
    PROMETHEUS_UNREACHABLE = "PrometheusUnreachable"
    PROMETHEUS_TIMEOUT = "PrometheusTimeout"
    PROMETHEUS_REFUSED = "PrometheusRefused"
    NO_SERIES = "NoSeries"
    NO_SERIES_YET = "NoSeriesYet"
    PARTIAL_SERIES = "PartialSeries"
    STALE_SERIES = "StaleSeries"
    NOT_A_NUMBER = "NotANumber"
    ENGINE_HANGS = "EngineHangs"
    NO_READY_REPLICA = "NoReadyReplica"
    # conditions
    ALL_SLOTS_SERVE = "AllSlotsServe"
    SOME_SLOTS_SERVE = "SomeSlotsServe"
    NO_SLOT_SERVES = "NoSlotServes"
    SCALED_TO_ZERO = "ScaledToZero"
    GATEWAY_NOT_READY = "GatewayNotReady"
    UNCALIBRATED = "Uncalibrated"
    PROFILE_IN_USE = "ProfileInUse"
    PROFILE_INVALID = "ProfileInvalid"
    PROFILE_DRIFT = "ProfileDrift"
    PROFILE_UNREADABLE = "ProfileUnreadable"
    CURVES_USABLE = "CurvesUsable"
    CALIBRATION_WAITS = "CalibrationWaits"
    CALIBRATION_FAILED = "CalibrationFailed"
    SETTLED = "Settled"
    FLIPPING = "Flipping"
    ROLLING_OUT = "RollingOut"
    ROLLED_BACK = "RolledBack"
    CAPACITY_FREE = "CapacitySufficient"
    INSUFFICIENT_GPUS = "InsufficientGPUs"
    UNSCHEDULABLE = "Unschedulable"
    NO_MATCHING_NODES = "NoMatchingNodes"
    HARDWARE_CLASS_MISSING = "HardwareClassMissing"
    HEALTHY = "Healthy"
    CRASH_LOOP = "CrashLoop"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    NAME_CONFLICT = "NameConflict"
    INVALID_ARGUMENTS = "InvalidArguments"
    DELETING = "Deleting"
    # events
    FLIP_STARTED = "FlipStarted"
    FLIP_COMPLETED = "FlipCompleted"
    FLIP_ROLLED_BACK = "FlipRolledBack"
    DRAIN_STARTED = "DrainStarted"
    DRAIN_COMPLETED = "DrainCompleted"
    DRAIN_TIMED_OUT = "DrainTimedOut"
    SLOT_REPLACED = "SlotReplaced"
    SLOT_CREATED = "SlotCreated"
    SLOT_RETIRED = "SlotRetired"
    CALIBRATION_STARTED = "CalibrationStarted"
    CALIBRATION_PAUSED = "CalibrationPaused"
    CALIBRATION_FINISHED = "CalibrationFinished"
    DRIFT_CORRECTED = "DriftCorrected"
    HOLDING = "Holding"
    RECONCILE_FAILED = "ReconcileFailed"


# Holds that come and go with the load while all is well: no event, and status tells them with its next write.
QUIET = frozenset(
    {
        Reason.STEADY,
        Reason.STABILIZING,
        Reason.CAPACITY_UNKNOWN,
        Reason.STAYING_IS_CHEAPER,
        Reason.NOT_WORTH_THE_WAY_BACK,
        Reason.CURVES_UNCERTAIN,
        Reason.WOULD_MOVE_BACK,
        Reason.PROFILE_MTP_ONLY,
        Reason.PROFILE_BATCH_ONLY,
    }
)
# Status tells these at once, and a condition or the spec says the same: no event.
WITHOUT_EVENT = QUIET | {
    Reason.MOVE_IN_FLIGHT,
    Reason.CALIBRATING,
    Reason.NO_READY_REPLICA,
    Reason.GATEWAY_NOT_READY,
    Reason.NO_SERIES_YET,
    Reason.PINNED_MIX,
}
