"""A cluster in a few lines, for the pure core: Deployments with Recreate, pods that load and drain, engines with requests.

A LeaderWorkerSet is one of them here, since only its leader is seen.

It carries out plan actions as the API server would (uid preconditions, one write at a time) and can be stopped after any
action, which is how an operator dies. Real clusters are for the integration tests; this one runs thousands of histories.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.api.status import InferenceServiceStatus, PolicyState
from mtpilot.model.metrics import GatewayMetrics, MetricsView, PodMetrics
from mtpilot.model.names import ANNOTATION_DIGEST, ANNOTATION_ROLLOUT_STATE, LABEL_MODE, LABEL_TEMPLATE_DIGEST
from mtpilot.model.plan import Action, ApplyObject, DeleteObject, EnsureSecret, Plan, ReleaseService, SetRolloutState, SetServing
from mtpilot.model.slots import EngineLoad, Pod, Slot, SlotKind, TemplateRevision, decode_state, encode_state
from mtpilot.model.snapshot import Child, HardwareView, Manifest, Profile, Service, Snapshot
from mtpilot.ports import ClusterError
from mtpilot.reconcile import plan

START = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
RATE = {Mode.MTP: 1700.0, Mode.BATCH: 2800.0}  # tokens/s of a full replica
SLOTS = {Mode.MTP: 24, Mode.BATCH: 68}

SPEC: dict[str, Any] = {
    "model": {"source": "hf://Qwen/Qwen3.5-122B-A10B", "servedName": "qwen", "contextLength": 32768},
    "hardwareClass": "rtx",
    "replicas": 4,
    "modes": {
        "mtp": {"maxRunningRequests": 24, "speculation": {"numSteps": 3, "eagleTopk": 1, "numDraftTokens": 4}},
        "batch": {"maxRunningRequests": 68},
    },
    "policy": {"minDwell": "1m", "maxFlipsPerHour": 12, "stabilization": {"up": "20s", "down": "40s"}},
    "rollout": {"drainTimeout": "2m", "readyTimeout": "3m"},
}


def spec(**changes: Any) -> InferenceServiceSpec:
    """The sample spec with top-level parts replaced or, for dicts, updated."""
    merged = {
        key: {**value, **changes[key]} if isinstance(value, dict) and key in changes else changes.get(key, value)
        for key, value in SPEC.items()
    }
    merged |= {key: value for key, value in changes.items() if key not in SPEC}
    return InferenceServiceSpec.model_validate(merged)


def hardware(**changes: Any) -> HardwareView:
    values: dict[str, Any] = {"name": "rtx", "nodes": 2, "gpus_total": 16, "gpus_free": 0}
    values["spec"] = HardwareClassSpec.model_validate({"gpu": {"perReplica": 4, "memory": "96Gi"}, "nodeSelector": {"pool": "rtx"}})
    return HardwareView(**(values | changes))


@dataclass
class Deployment:
    name: str
    uid: str
    manifest: Manifest
    created_at: datetime
    revisions: list[TemplateRevision] = field(default_factory=list)

    @property
    def labels(self) -> dict[str, str]:
        spec = self.manifest["spec"]
        pod = spec["template"] if "template" in spec else spec["leaderWorkerTemplate"]["leaderTemplate"]
        labels: dict[str, str] = pod["metadata"]["labels"]
        return labels

    @property
    def kind(self) -> SlotKind:
        return SlotKind(self.manifest["kind"])


@dataclass
class Engine:
    """What a pod's engine holds; `loads_in` is None for a template that never gets ready."""

    running: int = 0
    ready_at: datetime | None = None


@dataclass
class World:
    """The cluster. `broken(digest, mode)` tells which templates never get ready."""

    spec: InferenceServiceSpec = field(default_factory=spec)
    hardware: HardwareView | None = field(default_factory=hardware)
    now: datetime = START
    load_seconds: float = 30.0
    broken: Callable[[str, Mode], bool] = lambda digest, mode: False
    demand: float = 0.0  # tokens/s that clients ask for
    request_seconds: float = 10.0
    reachable: bool = True
    metrics: bool = True
    quota: int | None = None  # of Deployments
    generation: int = 1
    deleting_since: datetime | None = None
    released: bool = False
    status: InferenceServiceStatus = field(default_factory=InferenceServiceStatus)
    deployments: dict[str, Deployment] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    children: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    profiles: tuple[Profile, ...] = ()
    state_slots: float | None = 320.0  # of each engine; 0: a dense model
    memory: PolicyState | None = None  # of the operator process that lives now
    lost: int = 0
    writes: int = 0
    most_pods: int = 0
    events: list[Any] = field(default_factory=list)
    _uid: int = 0

    # ---- time

    def step(self, seconds: float = 1.0) -> None:
        """Let time pass: controllers act, pods load, requests come and go."""
        self.now += timedelta(seconds=seconds)
        for deployment in self.deployments.values():
            self._recreate(deployment)
        for pod in list(self.pods.values()):
            self._age(pod)
        self._requests(seconds)
        self.most_pods = max(self.most_pods, len(self.pods))

    def _recreate(self, deployment: Deployment) -> None:
        mine = [pod for pod in self.pods.values() if pod.slot == deployment.name]
        digest = deployment.labels[LABEL_TEMPLATE_DIGEST]
        for pod in mine:
            if pod.digest != digest and not pod.terminating:
                self.pods[pod.uid] = replace(pod, terminating=True, ready=False)
        if not mine:
            self._create_pod(deployment)

    def _create_pod(self, deployment: Deployment) -> None:
        uid = self.uid()
        mode = Mode(deployment.labels[LABEL_MODE])
        digest = deployment.labels[LABEL_TEMPLATE_DIGEST]
        never = self.broken(digest, mode)
        self.pods[uid] = Pod(
            name=f"{deployment.name}-{uid}", uid=uid, slot=deployment.name, mode=mode, digest=digest, created_at=self.now, ip="127.1.0.1"
        )
        self.engines[uid] = Engine(ready_at=None if never else self.now + timedelta(seconds=self.load_seconds))

    def _age(self, pod: Pod) -> None:
        engine = self.engines[pod.uid]
        if pod.terminating:
            if engine.running == 0:
                del self.pods[pod.uid], self.engines[pod.uid]
        elif engine.ready_at is not None and self.now >= engine.ready_at and not pod.ready:
            self.pods[pod.uid] = replace(pod, ready=True, was_ready=True, ready_since=self.now)

    def _requests(self, seconds: float) -> None:
        """Serving pods share the demand; the others finish what they have within request_seconds."""
        serving = [pod for pod in self.pods.values() if pod.ready and pod.serving and not pod.terminating]
        share = self.demand / len(serving) if serving else 0.0
        for pod in self.pods.values():
            engine = self.engines[pod.uid]
            if pod in serving:
                engine.running = min(SLOTS[pod.mode], round(share / RATE[pod.mode] * SLOTS[pod.mode]))
            elif engine.running:
                engine.running = max(0, engine.running - max(1, round(engine.running * seconds / self.request_seconds)))

    def uid(self) -> str:
        self._uid += 1
        return f"u{self._uid}"

    # ---- what the operator sees

    def snapshot(self) -> Snapshot:
        service = Service(
            name="chat",
            namespace="team-a",
            uid="svc",
            generation=self.generation,
            spec=self.spec,
            status=self.status,
            deleting_since=self.deleting_since,
        )
        loads = {
            uid: EngineLoad(running=engine.running, waiting=0, effective_max_running_requests=SLOTS[self.pods[uid].mode])
            for uid, engine in self.engines.items()
            if uid in self.pods and (self.pods[uid].ready or self.pods[uid].terminating)
        }
        return Snapshot(
            service=service,
            hardware=self.hardware,
            slots=tuple(self._slot(deployment) for deployment in self.deployments.values()),
            pods=tuple(self.pods.values()),
            children=tuple(self._child(key, manifest) for key, manifest in self.children.items()),
            profiles=self.profiles,
            engines=loads if self.reachable else {},
            metrics=self._metrics(),
            memory=self.memory,
        )

    def _slot(self, deployment: Deployment) -> Slot:
        annotations = deployment.manifest["metadata"]["annotations"]
        text = annotations.get(ANNOTATION_ROLLOUT_STATE)
        return Slot(
            name=deployment.name,
            index=int(deployment.name.rsplit("r", 1)[1]),
            uid=deployment.uid,
            kind=deployment.kind,
            mode=Mode(deployment.labels[LABEL_MODE]),
            digest=deployment.labels[LABEL_TEMPLATE_DIGEST],
            replicas=1,
            object_digest=annotations.get(ANNOTATION_DIGEST),
            created_at=deployment.created_at,
            state=decode_state(text) if text else None,
            revisions=tuple(deployment.revisions),
        )

    @staticmethod
    def _child(key: tuple[str, str], manifest: Manifest) -> Child:
        ready = 1 if key[0] == "Deployment" else None
        digest = manifest["metadata"].get("annotations", {}).get(ANNOTATION_DIGEST)
        changed_at = START if ready else None
        return Child(
            api_version=manifest["apiVersion"], kind=key[0], name=key[1], uid=f"{key}", digest=digest,
            ready=ready, desired=ready, changed_at=changed_at,
        )  # fmt: skip

    def _metrics(self) -> MetricsView | None:
        if not self.metrics:
            return None
        pods: dict[str, PodMetrics] = {}
        serving = [pod for pod in self.pods.values() if pod.ready and pod.serving]
        share = self.demand / len(serving) if serving else 0.0
        queued = 0.0
        for pod in serving:
            served = min(share, RATE[pod.mode])
            queued += max(0.0, share - RATE[pod.mode]) / 100
            pods[pod.uid] = PodMetrics(
                age_seconds=1.0,
                running=float(self.engines[pod.uid].running),
                queued=0.0,
                generation_tokens_per_second=served,
                prompt_tokens_per_second=served,
                requests_per_second=served / 1000,
                state_slots=self.state_slots,
            )
        gateway = GatewayMetrics(age_seconds=1.0, in_flight=queued, queued=queued, arrivals_per_second=self.demand / 1000)
        return MetricsView(window_seconds=30.0, scrape_interval_seconds=2.0, pods=pods, gateway=gateway)

    # ---- what the operator does

    def tick(self, stop_after: int | None = None) -> Plan:
        """One turn of the operator, cut off after `stop_after` writes as if it had been killed there."""
        made = plan(self.snapshot(), self.now)
        self.memory = made.status.policy if stop_after is None else None
        for number, action in enumerate(made.actions):
            if stop_after is not None and number >= stop_after:
                return made
            self.execute(action)
        if stop_after is not None and stop_after <= len(made.actions):
            return made
        self.events.extend(made.events)
        if made.write_status:
            self.writes += 1
            self.status = made.status
        return made

    def execute(self, action: Action) -> None:
        self.writes += 1
        match action:
            case ApplyObject(manifest=manifest):
                self._apply(manifest)
            case EnsureSecret(manifest=manifest):
                self.children.setdefault((manifest["kind"], manifest["metadata"]["name"]), manifest)
            case SetRolloutState(slot=name, kind=kind, uid=uid, state=state):
                deployment = self.deployments[name]
                assert (deployment.uid, deployment.kind) == (uid, kind)
                metadata = deployment.manifest["metadata"]
                annotations = metadata["annotations"] | {ANNOTATION_ROLLOUT_STATE: encode_state(state)}
                deployment.manifest = deployment.manifest | {"metadata": metadata | {"annotations": annotations}}
            case SetServing(uid=uid, serving=serving):
                self.pods[uid] = replace(self.pods[uid], serving=serving)
            case DeleteObject(kind=kind, name=name, uid=uid):
                self._delete(kind, name, uid)
            case ReleaseService():
                self.released = True

    def _apply(self, manifest: Manifest) -> None:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if "mtpilot.dev/slot" not in manifest["metadata"].get("labels", {}):
            self.children[kind, name] = manifest
            return
        known = self.deployments.get(name)
        if known is None:
            if self.quota is not None and len(self.deployments) >= self.quota:
                raise ClusterError("exceeded quota")
            known = self.deployments[name] = Deployment(name, self.uid(), manifest, self.now)
        before = known.labels[LABEL_TEMPLATE_DIGEST]
        assert known.manifest["kind"] == manifest["kind"]
        known.manifest = manifest
        after = known.labels[LABEL_TEMPLATE_DIGEST]
        if before != after or not known.revisions:
            known.revisions = [revision for revision in known.revisions if revision.digest != after]
            known.revisions.append(
                TemplateRevision(
                    digest=after,
                    mode=Mode(known.labels[LABEL_MODE]),
                    template=manifest["spec"].get("template") or manifest["spec"]["leaderWorkerTemplate"],
                )
            )
            if before != after:
                self._count_lost(name)

    def _count_lost(self, name: str) -> None:
        """A pod that is replaced while it still takes new requests loses what comes until the gateway notices."""
        self.lost += sum(pod.ready and pod.serving for pod in self.pods.values() if pod.slot == name)

    def _delete(self, kind: str, name: str, uid: str) -> None:
        assert (self.deployments[name].kind, self.deployments[name].uid) == (kind, uid)
        self._count_lost(name)
        del self.deployments[name]
        for pod in list(self.pods.values()):
            if pod.slot == name:
                self.pods[pod.uid] = replace(pod, terminating=True, ready=False)

    # ---- for tests

    def copy(self) -> "World":
        """The same world to live on by itself. What is changed in place is copied; pods and manifests are only ever replaced."""
        return replace(
            self,
            deployments={name: replace(found, revisions=list(found.revisions)) for name, found in self.deployments.items()},
            pods=dict(self.pods),
            engines={uid: replace(engine) for uid, engine in self.engines.items()},
            children=dict(self.children),
            events=list(self.events),
        )

    def run(self, seconds: float, *, period: float = 1.0) -> None:
        """Let operator and time go on for a while."""
        for _ in range(round(seconds / period)):
            self.step(period)
            self.tick()

    def modes(self) -> tuple[int, int]:
        """(mtp, batch) of the Deployments."""
        modes = [Mode(deployment.labels[LABEL_MODE]) for deployment in self.deployments.values()]
        return modes.count(Mode.MTP), modes.count(Mode.BATCH)

    def serving(self) -> int:
        return sum(pod.ready and pod.serving and not pod.terminating for pod in self.pods.values())

    def flips(self) -> list[tuple[str, str]]:
        return [(entry.slot, entry.outcome) for entry in self.status.history]
