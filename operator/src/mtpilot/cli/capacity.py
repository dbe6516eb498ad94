"""`mtpilot capacity`: how many requests a replica holds in each mode, what binds, and what to change first.

No cluster is asked: the numbers come from the model's config.json, the GPUs and the arguments, by SGLang's own formulas.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import exits

if TYPE_CHECKING:
    from mtpilot.api.hardware_class import HardwareClassSpec
    from mtpilot.api.inference_service import InferenceServiceSpec
    from mtpilot.capacity.estimate import Subject
    from mtpilot.capacity.launch import Launch

_DEFAULT_TOKENS = 1000  # as WorkloadSpec
_HINTS = {"--speculative-draft-model-path": " (--draft-layers and --draft-weights)", "spec.gpu.memory": " (--gpu-memory)"}


def capacity(
    *,
    config: Annotated[Path, typer.Option("--config", "-c", help="config.json of the model, as the hub has it.")],
    gpu_memory: Annotated[str | None, typer.Option(help="Memory of one GPU, like 96Gi.")] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs of one replica.")] = None,
    hardware_class: Annotated[Path | None, typer.Option(help="File with a HardwareClass; its GPUs and engine arguments count.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="File with an InferenceService: its arguments, as the operator renders them.")
    ] = None,
    max_running_requests: Annotated[int | None, typer.Option(min=1, help="--max-running-requests in both modes.")] = None,
    mem_fraction_static: Annotated[float | None, typer.Option(min=0.01, max=0.99, help="--mem-fraction-static in both modes.")] = None,
    context_length: Annotated[int | None, typer.Option(min=1, help="--context-length in both modes.")] = None,
    draft_tokens: Annotated[int | None, typer.Option(min=2, help="--speculative-num-draft-tokens of mtp; steps are one less.")] = None,
    input_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of the usual prompt. Default: 1000.")] = None,
    output_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of the usual answer. Default: 1000.")] = None,
    weights: Annotated[
        str | None, typer.Option(help="Measured weights on one GPU ('Load weight end … mem usage'), instead of the count.")
    ] = None,
    draft_weights: Annotated[str | None, typer.Option(help="The same for the draft.")] = None,
    draft_layers: Annotated[int | None, typer.Option(min=1, help="Layers of a draft that is a model of its own.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show slots and memory of both modes side by side, what binds each, and the first remedy."""
    from .capacity_report import show

    given = _Given(
        max_running_requests=max_running_requests,
        mem_fraction_static=mem_fraction_static,
        context_length=context_length,
        draft_tokens=draft_tokens,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        weights=weights,
        draft_weights=draft_weights,
        draft_layers=draft_layers,
    )
    result = _result(config, _Replica(memory=gpu_memory, gpus=gpus, hardware_class=hardware_class, file=file), given)
    if as_json:
        typer.echo(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        show(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """Options that go before what the files say."""

    max_running_requests: int | None
    mem_fraction_static: float | None
    context_length: int | None
    draft_tokens: int | None
    input_tokens: int | None
    output_tokens: int | None
    weights: str | None
    draft_weights: str | None
    draft_layers: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replica:
    """What a replica is: GPUs by option, else of a HardwareClass; arguments of an InferenceService, else SGLang's defaults."""

    memory: str | None
    gpus: int | None
    hardware_class: Path | None
    file: Path | None


def _result(config: Path, replica: _Replica, given: _Given) -> dict[str, Any]:
    from mtpilot.capacity.compare import compare
    from mtpilot.capacity.errors import DoesNotFit, NotCovered

    from .capacity_report import document

    try:
        service, hardware = _manifests(replica.file, replica.hardware_class)
        subject, gpus = _subject(config, _gpus(replica.memory, replica.gpus, hardware), service, given)
        found = compare(subject, *_launches(service, hardware, gpus, given))
    except DoesNotFit as error:
        exits.leave(str(error), exits.FAILED)
    except NotCovered as error:
        exits.leave(str(error) + _HINTS.get(error.field, ""), exits.USAGE)
    except (OSError, ValueError) as error:
        exits.leave(exits.in_words(error), exits.USAGE)
    return document(subject, found, gpus)


def _manifests(file: Path | None, hardware_class: Path | None) -> tuple["InferenceServiceSpec | None", "HardwareClassSpec | None"]:
    """The service of `file`; the class of `hardware_class`, else of `file`.

    Raises:
        ValueError: a file has no such object, several, or an invalid one.
    """
    from mtpilot.api.hardware_class import HardwareClassSpec
    from mtpilot.api.inference_service import InferenceServiceSpec

    from .profile_files import named_fields

    source = hardware_class if hardware_class is not None else file
    if source is None:
        return None, None
    service = None
    if file is not None:
        with named_fields(f"{file}: spec"):
            service = InferenceServiceSpec.model_validate(_object(_yaml(file), "InferenceService", file).get("spec") or {})
    wanted = service.hardware_class if service is not None and hardware_class is None else None
    found = _object(_yaml(source), "HardwareClass", source, name=wanted)
    with named_fields(f"{source}: spec"):
        return service, HardwareClassSpec.model_validate(found.get("spec") or {})


def _yaml(path: Path) -> list[Mapping[str, Any]]:
    import yaml

    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    return [found for found in documents if isinstance(found, Mapping)]


def _object(documents: list[Mapping[str, Any]], kind: str, path: Path, name: str | None = None) -> Mapping[str, Any]:
    found = [item for item in documents if item.get("kind") == kind]
    if name is not None:
        found = [item for item in found if (item.get("metadata") or {}).get("name") == name]
    if len(found) != 1:
        called = f" named {name}" if name else ""
        hint = "; give its file with --hardware-class" if kind == "HardwareClass" and not found else ""
        raise ValueError(f"{path} has {len(found)} objects of kind {kind}{called}, not one{hint}")
    return found[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gpus:
    memory: str
    count: int


def _gpus(memory: str | None, count: int | None, hardware: "HardwareClassSpec | None") -> _Gpus:
    memory = memory or (hardware.gpu.memory if hardware is not None else None)
    count = count or (hardware.gpu.per_replica if hardware is not None else None)
    if memory is None or count is None:
        raise ValueError("give --gpu-memory and --gpus, or a HardwareClass with --hardware-class or --file")
    return _Gpus(memory=memory, count=count)


def _subject(config: Path, gpus: _Gpus, service: "InferenceServiceSpec | None", given: _Given) -> tuple["Subject", int]:
    from mtpilot.capacity.estimate import Subject
    from mtpilot.capacity.memory import Gpu
    from mtpilot.capacity.quantity import bytes_of
    from mtpilot.capacity.read_config import read_config

    try:
        parsed = json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{config} is not JSON: {error}") from error
    if not isinstance(parsed, Mapping):
        raise ValueError(f"{config} is no config.json: it must be an object")
    workload = service.workload if service is not None else None
    subject = Subject(
        shape=read_config(parsed),
        gpu=Gpu(memory_bytes=bytes_of(gpus.memory)),
        input_tokens=given.input_tokens or (workload.input_tokens if workload else _DEFAULT_TOKENS),
        output_tokens=given.output_tokens or (workload.output_tokens if workload else _DEFAULT_TOKENS),
        weights_bytes=bytes_of(given.weights) if given.weights else None,
        draft_weights_bytes=bytes_of(given.draft_weights) if given.draft_weights else None,
        draft_layers=given.draft_layers,
    )
    return subject, gpus.count


def _launches(
    service: "InferenceServiceSpec | None", hardware: "HardwareClassSpec | None", gpus: int, given: _Given
) -> tuple["Launch", "Launch"]:
    """Arguments of mtp and batch: rendered for a service, else SGLang's defaults on all GPUs of the replica."""
    from mtpilot.api.inference_service import Mode
    from mtpilot.capacity.launch import Speculation, launch_from_flags
    from mtpilot.render.arguments import engine_arguments

    if service is not None and hardware is not None:
        mtp, batch = (launch_from_flags(_flags(engine_arguments(service, hardware, mode))) for mode in (Mode.MTP, Mode.BATCH))
    else:
        batch = launch_from_flags({"--tp-size": str(gpus), **_flags(hardware.engine.args if hardware is not None else ())})
        mtp = replace(batch, speculation=Speculation())
    return _overridden(mtp, given), _overridden(batch, given)


def _flags(args: Sequence[str]) -> dict[str, str | None]:
    from mtpilot.render.options import split_options

    return {option.name: option.value for option in split_options(args, "args")}


def _overridden(launch: "Launch", given: _Given) -> "Launch":
    changes: dict[str, Any] = {
        name: value
        for name in ("max_running_requests", "mem_fraction_static", "context_length")
        if (value := getattr(given, name)) is not None
    }
    if launch.speculation is not None and given.draft_tokens is not None:
        changes["speculation"] = replace(
            launch.speculation, num_steps=given.draft_tokens - 1, num_draft_tokens=given.draft_tokens, eagle_topk=1
        )
    return replace(launch, **changes)
