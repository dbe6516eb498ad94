"""`mtpilot evidence import`: a package of another load generator's files."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import exits

if TYPE_CHECKING:
    from mtpilot.evidence.importing.assembling import Facts, Imported, Source

importing = typer.Typer(name="import", no_args_is_help=True, help="Make a package of another load generator's files.", epilog=exits.EPILOG)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder of the package; new or empty.")]
Acceptance = Annotated[str | None, typer.Option(help="How acceptance was had: Natural, SemiSynthetic or Synthetic.")]
Model = Annotated[str | None, typer.Option(help="As in the InferenceService's model.source; default: as the file says.")]
Hardware = Annotated[str | None, typer.Option(help="Name of the HardwareClass.")]
EngineName = Annotated[str | None, typer.Option("--engine", help="Engine and version, like 'sglang 0.5.23'; default: as the file says.")]
MeasuredAt = Annotated[str | None, typer.Option(help="When it was measured, RFC 3339; default: as the file says.")]
Sampled = Annotated[bool, typer.Option("--sampled", help="Tokens were drawn with a temperature above 0; default: greedy.")]
MtpSlots = Annotated[int | None, typer.Option(min=1, help="Effective running requests in mode mtp; default: as the file says.")]
BatchSlots = Annotated[int | None, typer.Option(min=1, help="The same in mode batch.")]
Plots = Annotated[bool, typer.Option(help="Draw plots, where matplotlib is there.")]


_TAGGED = re.compile(r"(mtp|batch)=(.+)")


@importing.command("sglang")
def import_sglang(
    files: Annotated[list[str], typer.Argument(help="FILE.jsonl of sglang.benchmark.serving --output-file, or mtp=FILE, batch=FILE.")],
    *,
    output: Output,
    model: Model = None,
    hardware_class: Hardware = None,
    engine: EngineName = None,
    acceptance: Acceptance = None,
    measured_at: MeasuredAt = None,
    sampled: Sampled = False,
    mtp_slots: MtpSlots = None,
    batch_slots: BatchSlots = None,
    plots: Plots = True,
    as_json: AsJson = False,
) -> None:
    """Every line is a batch; the mode is told by the server_info in it. Run the tool with --output-details and --flush-cache."""
    from mtpilot.evidence.importing.sglang import read_sglang

    facts = _facts(
        model=model,
        hardware_class=hardware_class,
        engine=engine,
        acceptance=acceptance,
        measured_at=measured_at,
        sampled=sampled,
        mtp_slots=mtp_slots,
        batch_slots=batch_slots,
    )
    try:
        imported = read_sglang([_source(*_tagged(text)) for text in files], facts)
    except (OSError, ValueError) as error:
        exits.leave(str(error), exits.USAGE)
    _write(imported, output, plots=plots, as_json=as_json)


@importing.command("aiperf")
def import_aiperf(
    folders: Annotated[list[str], typer.Argument(help="mtp=FOLDER or batch=FOLDER: the artifacts of one run of aiperf profile.")],
    *,
    output: Output,
    model: Model = None,
    hardware_class: Hardware = None,
    engine: EngineName = None,
    acceptance: Acceptance = None,
    measured_at: MeasuredAt = None,
    sampled: Sampled = False,
    mtp_slots: MtpSlots = None,
    batch_slots: BatchSlots = None,
    plots: Plots = True,
    as_json: AsJson = False,
) -> None:
    """Every folder is a batch, with its requests: profile_export.jsonl and profile_export_aiperf.json."""
    from mtpilot.evidence.importing.aiperf import REQUESTS, SUMMARY, read_aiperf

    facts = _facts(
        model=model,
        hardware_class=hardware_class,
        engine=engine,
        acceptance=acceptance,
        measured_at=measured_at,
        sampled=sampled,
        mtp_slots=mtp_slots,
        batch_slots=batch_slots,
    )
    try:
        runs = [
            (_source(mode, path / REQUESTS, path.name), _source(mode, path / SUMMARY, path.name)) for mode, path in map(_tagged, folders)
        ]
        imported = read_aiperf(runs, facts)
    except (OSError, ValueError) as error:
        exits.leave(str(error), exits.USAGE)
    _write(imported, output, plots=plots, as_json=as_json)


def _tagged(text: str) -> tuple[str | None, Path]:
    found = _TAGGED.fullmatch(text)
    return (found[1], Path(found[2])) if found else (None, Path(text))


def _source(mode: str | None, path: Path, folder: str = "") -> "Source":
    """Named without the path to it: a package does not say where it was made."""
    from mtpilot.evidence.importing.assembling import Source

    return Source(name=f"{folder}/{path.name}" if folder else path.name, content=path.read_bytes(), mode=mode)


def _facts(
    *,
    model: str | None,
    hardware_class: str | None,
    engine: str | None,
    acceptance: str | None,
    measured_at: str | None,
    sampled: bool,
    mtp_slots: int | None,
    batch_slots: int | None,
) -> "Facts":
    from mtpilot.api.throughput_profile import Acceptance as Kind
    from mtpilot.evidence.importing.assembling import Facts
    from mtpilot.evidence.records import Sampling
    from mtpilot.telemetry.metrics import version

    if acceptance is not None and acceptance not in tuple(Kind):
        exits.leave(f"--acceptance is one of {', '.join(Kind)}, not {acceptance!r}", exits.USAGE)
    return Facts(
        mtpilot_version=version(),
        model=model,
        hardware_class=hardware_class,
        engine=engine,
        acceptance=acceptance,
        measured_at=measured_at,
        sampling=Sampling.SAMPLED if sampled else Sampling.GREEDY,
        slots={mode: slots for mode, slots in (("mtp", mtp_slots), ("batch", batch_slots)) if slots is not None},
    )


def _write(imported: "Imported", output: Path, *, plots: bool, as_json: bool) -> None:
    from mtpilot.evidence.files import write_package
    from mtpilot.evidence.verify import verify

    from .evidence_show import imported_document, show_imported

    try:
        files = write_package(output, imported.environment, imported.records, plots=plots)
    except OSError as error:
        exits.leave(str(error), exits.FAILED)
    document = imported_document(imported, verify(files), str(output))
    if as_json:
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        show_imported(document)
