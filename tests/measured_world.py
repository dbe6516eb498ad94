"""The small world with Jobs that measure a pod, and the ConfigMap in which they keep what they measured."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from mtpilot.api.inference_service import Mode
from mtpilot.api.throughput_profile import ThroughputProfileSpec
from mtpilot.model.measuring import CalibrationJob, CalibrationRecords, CalibrationView, RunProgress, RunState
from mtpilot.model.names import ANNOTATION_CALIBRATION, ANNOTATION_ENGINE_POD, LABEL_MODE
from mtpilot.model.snapshot import Manifest, Profile, Snapshot
from tests import profiles
from tests.world import World

BATCHES = 6
RUNNING = 8  # requests of a Job


@dataclass
class MeasuredWorld(World):
    """`ends(mode)`: what is written once a mode is measured whole; default: it is measured well."""

    jobs: dict[str, CalibrationJob] = field(default_factory=dict)
    records: CalibrationRecords | None = None
    batch_seconds: float = 5.0
    ends: Callable[[Mode], RunProgress] = lambda mode: RunProgress(state=RunState.MEASURED, done=BATCHES, total=BATCHES)
    made: int = 0  # Jobs
    measured_batches: int = 0
    disturbed: list[str] = field(default_factory=list)  # what was measured beside somebody's requests
    least_serving: int = 99
    _since: float = 0.0

    def step(self, seconds: float = 1.0) -> None:
        super().step(seconds)
        self.least_serving = min(self.least_serving, self.serving())
        for job in list(self.jobs.values()):
            self._measure(job, seconds)

    def _measure(self, job: CalibrationJob, seconds: float) -> None:
        pod = self.pods.get(job.pod_uid)
        if job.failed or job.succeeded or self.records is None:
            return
        if pod is None or not pod.ready:
            self.jobs[job.name] = replace(job, failed=True, message="BackoffLimitExceeded")
            return
        if pod.serving:
            self.disturbed.append(job.name)
        self.engines[pod.uid].running = RUNNING
        self._since += seconds
        if self._since >= self.batch_seconds:
            self._since = 0.0
            self._batch(job)

    def _batch(self, job: CalibrationJob) -> None:
        assert self.records is not None
        before = self.records.progress.get(job.mode) or RunProgress(state=RunState.MEASURING, total=BATCHES)
        done = before.done + 1
        self.measured_batches += 1
        now = self.ends(job.mode) if done >= BATCHES else replace(before, done=done, seconds_left=(BATCHES - done) * self.batch_seconds)
        self.records = replace(self.records, progress={**self.records.progress, job.mode: now})
        if done >= BATCHES:
            self.jobs[job.name] = replace(job, succeeded=now.state is RunState.MEASURED, failed=now.state is RunState.FAILED)
            self.engines[job.pod_uid].running = 0
            if all(self.records.is_measured(mode) for mode in Mode):
                self.records = replace(self.records, profile=ThroughputProfileSpec.model_validate(profiles.document()))

    def snapshot(self) -> Snapshot:
        return replace(super().snapshot(), calibration=CalibrationView(jobs=tuple(self.jobs.values()), records=self.records))

    def _apply(self, manifest: Manifest) -> None:
        kind, metadata = manifest["kind"], manifest["metadata"]
        run = metadata.get("annotations", {}).get(ANNOTATION_CALIBRATION)
        if kind == "Job":
            self._start(manifest, run)
        elif kind == "ConfigMap" and run is not None:
            if self.records is None or self.records.run != run:
                self.records = CalibrationRecords(uid=self.uid(), run=run)
        elif kind == "ThroughputProfile":
            spec = ThroughputProfileSpec.model_validate(manifest["spec"])
            others = tuple(found for found in self.profiles if found.name != metadata["name"])
            self.profiles = (*others, Profile(name=metadata["name"], generation=1, spec=spec, owner_uid="svc"))
        else:
            super()._apply(manifest)

    def _start(self, manifest: Manifest, run: str) -> None:
        metadata = manifest["metadata"]
        if metadata["name"] in self.jobs:
            return
        uid = metadata["annotations"][ANNOTATION_ENGINE_POD]
        assert self.engines[uid].running == 0, "a pod is measured with requests in it"
        self.made += 1
        mode = Mode(metadata["labels"][LABEL_MODE])
        self.jobs[metadata["name"]] = CalibrationJob(name=metadata["name"], uid=self.uid(), run=run, mode=mode, pod_uid=uid)

    def _delete(self, kind: str, name: str, uid: str) -> None:
        if kind == "Job":
            job = self.jobs.pop(name, None)
            assert job is None or job.uid == uid
            if job is not None and job.pod_uid in self.engines:
                self.engines[job.pod_uid].running = 0
        else:
            super()._delete(kind, name, uid)

    def copy(self) -> "MeasuredWorld":
        copied = super().copy()
        assert isinstance(copied, MeasuredWorld)
        copied.jobs, copied.disturbed = dict(self.jobs), list(self.disturbed)
        return copied
