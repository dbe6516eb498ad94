"""The samples of docs/examples as the core sees them, and a small service that tests can bend.

The samples are what users copy, so goldens and contracts run over exactly these files.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec, Mode
from mtpilot.model.snapshot import HardwareView, Service

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
MODES = tuple(Mode)
UID = "6f1c1d2e-0000-4000-8000-000000000001"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One InferenceService with its hardware class."""

    name: str
    service: Service
    hardware: HardwareView


def service(spec: dict[str, Any], *, name: str = "chat", namespace: str = "team-a") -> Service:
    return Service(name=name, namespace=namespace, uid=UID, generation=1, spec=InferenceServiceSpec.model_validate(spec))


def hardware(spec: dict[str, Any], *, name: str = "class") -> HardwareView:
    return HardwareView(name=name, spec=HardwareClassSpec.model_validate(spec), nodes=2, gpus_total=16, gpus_free=0)


def small_spec(**changes: Any) -> dict[str, Any]:
    """The least spec that is valid; `changes` replace top-level fields."""
    base = {
        "model": {"source": "hf://org/name"},
        "hardwareClass": "class",
        "replicas": 2,
        "modes": {"mtp": {"maxRunningRequests": 8}, "batch": {"maxRunningRequests": 32}},
    }
    return {**base, **changes}


def small_hardware(*args: str, **changes: Any) -> HardwareView:
    """One GPU; `args` are the class's engine arguments."""
    return hardware({"gpu": {"perReplica": 1, "memory": "96Gi"}, "engine": {"args": list(args)}, **changes})


def load_samples() -> tuple[Sample, ...]:
    """Every InferenceService of docs/examples with the hardware class that it names, from the same file."""
    samples = []
    for path in sorted(EXAMPLES.glob("*.yaml")):
        documents = [document for document in yaml.safe_load_all(path.read_text()) if document]
        classes = {
            doc["metadata"]["name"]: hardware(doc["spec"], name=doc["metadata"]["name"])
            for doc in documents
            if doc["kind"] == "HardwareClass"
        }
        for document in documents:
            if document["kind"] == "InferenceService":
                metadata = document["metadata"]
                made = service(document["spec"], name=metadata["name"], namespace=metadata["namespace"])
                samples.append(Sample(name=path.stem, service=made, hardware=classes[made.spec.hardware_class]))
    return tuple(samples)


SAMPLES = load_samples()
CHAT = next(sample for sample in SAMPLES if sample.service.name == "chat")
