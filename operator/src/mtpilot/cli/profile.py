"""`mtpilot profile`: make a ThroughputProfile from measurements, check one, join several."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import exits

if TYPE_CHECKING:
    from .profile_files import Named
    from .profile_making import Made

profile = typer.Typer(
    name="profile",
    no_args_is_help=True,
    help="Make, check and join ThroughputProfiles: what one model serves in each mode on one hardware class.",
    epilog=exits.EPILOG,
)

Output = Annotated[Path, typer.Option("--output", "-o", help="Profile to write; - for stdout.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Also a plot of points, fit, 90 % band and crossover, to this file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

_FIT_NEEDS = "a fit needs scipy: pip install 'mtpilot[analysis]'"


@profile.command("fit")
def fit(
    file: Annotated[Path, typer.Argument(help="POINTS.csv or RECORDS.jsonl, one row for each measured batch (docs/profiles.md).")],
    *,
    output: Output,
    plot: Plot = None,
    pair: Annotated[
        str | None, typer.Option("--pair", help="The file is a wide table, base and mtp side by side: take this pair_id.")
    ] = None,
    context: Annotated[list[int] | None, typer.Option("--context", help="Of the wide table only this context; may be repeated.")] = None,
    context_tokens: Annotated[int, typer.Option(min=1, help="Context of the rows that tell none, in tokens.")] = 1000,
    name: Annotated[str | None, typer.Option(help="Name of the object; default: from the model and the hardware class.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Its namespace; default: none is written.")] = None,
    model: Annotated[str | None, typer.Option(help="As in the InferenceService's model.source.")] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of the model; default: any matches.")] = None,
    hardware_class: Annotated[str | None, typer.Option(help="Name of the HardwareClass.")] = None,
    acceptance: Annotated[str | None, typer.Option(help="How acceptance was had: Natural, SemiSynthetic or Synthetic.")] = None,
    engine: Annotated[str | None, typer.Option(help="Engine and version, like 'sglang 0.5.23'.")] = None,
    flags_sha256: Annotated[str | None, typer.Option(help="Digest of the engine arguments of both modes.")] = None,
    source: Annotated[str | None, typer.Option(help="Run, report or file; default: the file's name.")] = None,
    measured_at: Annotated[str | None, typer.Option(help="When it was measured, RFC 3339.")] = None,
    draft_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens drafted for each request and step: SGLang's num-draft-tokens less one.")
    ] = None,
    experts: Annotated[int | None, typer.Option(min=2, help="Routed experts of a layer, for a MoE.")] = None,
    active_experts: Annotated[int | None, typer.Option(min=1, help="Routed experts that a token uses.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit measured points and write the profile. What the rows tell themselves needs no option."""
    from .profile_making import Facts, make

    told = Facts(
        model=model,
        revision=revision,
        hardware_class=hardware_class,
        acceptance=acceptance,
        engine=engine,
        flags_sha256=flags_sha256,
        source=source,
        measured_at=measured_at,
        draft_tokens=draft_tokens,
        experts=experts,
        active_experts=active_experts,
    )
    try:
        made = make(file, told, name=name, pair=pair, contexts=context or (), context_tokens=context_tokens)
    except ImportError:
        exits.leave(_FIT_NEEDS, exits.FAILED)
    except (OSError, ValueError) as error:
        exits.leave(exits.in_words(error, file), exits.USAGE)
    _finish(made, output, plot, namespace, as_json)


@profile.command("merge")
def merge(
    files: Annotated[list[Path], typer.Argument(help="Profiles of the same model on the same hardware, at least two.")],
    *,
    output: Output,
    plot: Plot = None,
    name: Annotated[str | None, typer.Option(help="Name of the object; default: that of the first file.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Its namespace; default: that of the first file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Join the points of several runs and fit them together. Refuses runs that differ in more than what they measured."""
    from .profile_files import read_profiles
    from .profile_making import merged

    try:
        found = [one for file in files for one in read_profiles(file)]
    except (OSError, ValueError) as error:
        exits.leave(exits.in_words(error), exits.USAGE)
    try:
        made = merged(found, name=name)
    except ImportError:
        exits.leave(_FIT_NEEDS, exits.FAILED)
    except ValueError as error:
        exits.leave(str(error), exits.FAILED)
    _finish(made, output, plot, namespace or found[0].namespace, as_json)


@profile.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="Profile, as a manifest; other kinds in the file are left aside.")],
    as_json: AsJson = False,
) -> None:
    """Check a profile that was written by hand: fields, order, digest of the fit; say what to mind and what the curves conclude.

    Exit status 1 when the API server would refuse it or its curves cannot be used; warnings alone leave it at 0.
    """
    from .profile_files import read_documents
    from .profile_show import check_document, show_check

    try:
        documents = read_documents(file)
    except (OSError, ValueError) as error:
        exits.leave(exits.in_words(error), exits.USAGE)
    results = [check_document(document) for document in documents]
    if as_json:
        typer.echo(json.dumps({"file": str(file), "profiles": results}, indent=2, ensure_ascii=False))
    else:
        for result in results:
            show_check(result)
    if any(result["problems"] for result in results):
        raise typer.Exit(exits.FAILED)


def _finish(made: "Made", output: Path, plot: Path | None, namespace: str | None, as_json: bool) -> None:
    """Write, and say what was made."""
    from .profile_files import profile_text
    from .profile_show import made_document, show_made

    text = profile_text(made.named.with_namespace(namespace))
    try:
        if str(output) == "-":
            typer.echo(text, nl=False)
        else:
            output.write_text(text, encoding="utf-8")
        if plot is not None:
            _draw(made.named, plot)
    except ImportError:
        exits.leave(exits.PLOT_NEEDS, exits.FAILED)
    except (OSError, ValueError) as error:  # ValueError: a plot format that matplotlib does not know
        exits.leave(str(error), exits.FAILED)
    document: dict[str, Any] = made_document(made)
    if as_json:
        typer.echo(json.dumps({"file": str(output), **document}, indent=2, ensure_ascii=False), err=str(output) == "-")
    else:
        show_made(document, to_stderr=str(output) == "-")


def _draw(named: "Named", path: Path) -> None:
    from .profile_plot import draw

    draw(named.spec, path, title=named.name)
