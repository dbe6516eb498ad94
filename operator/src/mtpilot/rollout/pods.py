"""What the pods of a slot mean: broken is not busy, no pod is not busy, unreachable is unknown and not idle."""

from collections.abc import Iterable, Mapping, Sequence

from mtpilot.model.slots import EngineLoad, Pod

IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError")


def live(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Pods that run or are going to: neither finished nor on their way out."""
    return tuple(pod for pod in pods if not pod.finished and not pod.terminating)


def leaving(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Pods that still hold their GPUs while they end."""
    return tuple(pod for pod in pods if pod.terminating and not pod.finished)


def with_digest(pods: Iterable[Pod], digest: str) -> Pod | None:
    """The newest live pod of a template."""
    found = [pod for pod in live(pods) if pod.digest == digest]
    return max(found, key=lambda pod: pod.created_at, default=None)


def is_broken(pod: Pod) -> bool:
    """Cannot hold a request: it was never ready, or it crash-loops."""
    return pod.crash_looping or not pod.was_ready


def worth_draining(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """Live pods that may hold requests."""
    return tuple(pod for pod in live(pods) if not is_broken(pod))


def in_flight(pods: Iterable[Pod], loads: Mapping[str, EngineLoad]) -> int | None:
    """Requests in the pods' engines, or None where one did not answer."""
    total = 0
    for pod in pods:
        load = loads.get(pod.uid)
        if load is None:
            return None
        total += load.in_flight
    return total


def trouble(pod: Pod) -> str | None:
    """Why a pod is not ready, in the scheduler's or the kubelet's words."""
    if pod.unschedulable:
        return pod.unschedulable
    if pod.waiting_reason:
        return f"{pod.waiting_reason}: {pod.waiting_message}" if pod.waiting_message else pod.waiting_reason
    if pod.crash_looping:
        return f"restarted {pod.restarts} times without getting ready"
    return None
