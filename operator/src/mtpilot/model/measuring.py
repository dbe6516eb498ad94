"""A calibration as the cluster has it: the Jobs that measure, and the ConfigMap in which they keep what they measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import ThroughputProfileSpec


class RunState(StrEnum):
    """How far the measurement of one mode is, as its Job says."""

    MEASURING = "Measuring"
    MEASURED = "Measured"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """Of one mode. done, total: batches. seconds_left: None where nothing was measured yet."""

    state: RunState
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationJob:
    """A Job of ours. run, mode, pod_uid: what it was made for. message: why it failed, in Kubernetes' words."""

    name: str
    uid: str
    run: str
    mode: Mode
    pod_uid: str
    failed: bool = False
    succeeded: bool = False
    deleting: bool = False
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRecords:
    """The ConfigMap.

    run: that it is of now; what an earlier one left in it is not seen. profile: what both modes give, once both were measured; problem:
    why they give none.
    """

    uid: str
    run: str
    progress: Mapping[Mode, RunProgress] = field(default_factory=dict)
    profile: ThroughputProfileSpec | None = None
    problem: str | None = None

    def is_measured(self, mode: Mode) -> bool:
        found = self.progress.get(mode)
        return found is not None and found.state is RunState.MEASURED


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationView:
    """Everything there is of a service's calibration beside its slot."""

    jobs: tuple[CalibrationJob, ...] = ()
    records: CalibrationRecords | None = None


NOTHING_MEASURED = CalibrationView()
