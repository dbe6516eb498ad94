"""`mtpilot simulate`: replay traffic over measured curves, with the very code that the operator decides by."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import exits

if TYPE_CHECKING:
    from mtpilot.model.calibration import Calibration
    from mtpilot.simulate.compare import Comparison, Progress
    from mtpilot.simulate.loads import Load

DEFAULT_CONTEXT_TOKENS = 1500  # of an InferenceService that says nothing of its workload
_PROGRESS_FROM_MINUTES = 3000  # of all runs together: about a second


def simulate(
    *,
    profile: Annotated[list[Path], typer.Option("--profile", help="ThroughputProfile, as a manifest; may be repeated.")],
    trace: Annotated[
        list[Path] | None, typer.Option("--trace", help="Traffic: Azure 2023 or Mooncake requests, or ServeGen rates; may be repeated.")
    ] = None,
    closed: Annotated[
        list[Path] | None, typer.Option("--closed", help="Clients that wait for answers: CSV with minutes,clients; may be repeated.")
    ] = None,
    replicas: Annotated[int, typer.Option(min=1, max=64, help="Replicas of the fleet.")] = 4,
    flip: Annotated[float, typer.Option(min=1, help="Seconds that a replica serves nothing when it changes its mode.")] = 240.0,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", help="Only this policy; may be repeated. `--list-policies` tells them.")
    ] = None,
    load: Annotated[
        float,
        typer.Option(min=0.01, max=100, help="Scale a trace: its 95th percentile, as a share of what all replicas serve in mtp mode."),
    ] = 0.9,
    recorded: Annotated[bool, typer.Option("--recorded", help="Do not scale: the trace's own rates.")] = False,
    output_tokens: Annotated[
        float, typer.Option(min=1, help="Output tokens of a request, where the load does not tell: rate traces and clients.")
    ] = 1000.0,
    first_minute: Annotated[int, typer.Option(min=0, help="Begin a trace there.")] = 0,
    minutes: Annotated[int | None, typer.Option(min=2, help="Play no more of it than this; default: all of it.")] = None,
    seed: Annotated[int, typer.Option(help="Of the Poisson noise that a rate trace gets; a request trace has its own.")] = 5,
    context: Annotated[int, typer.Option(min=1, help="Mean context while decoding, in tokens: which curves of a profile are taken.")] = (
        DEFAULT_CONTEXT_TOKENS
    ),
    guards: Annotated[bool, typer.Option(help="Dwell time and flip budget of the operator.")] = True,
    explain: Annotated[bool, typer.Option("--explain", help="Say with each move of the operator why, which takes longer.")] = False,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Also write JSON to this FILE; - for stdout, instead of the tables. Unlike the other commands' --json it takes a value.",
        ),
    ] = None,
    series: Annotated[bool, typer.Option("--series", help="In the JSON also every minute of every run.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Also a plot of load, mix, queue and the difference to the optimum; numbered where several."),
    ] = None,
    list_policies: Annotated[
        bool, typer.Option("--list-policies", is_eager=True, callback=lambda value: _list_policies() if value else None, help="Name them.")
    ] = False,
) -> None:
    """Replay traffic over a fleet under several policies, and measure each by the best that knowing the future could do.

    What waits is carried over, and a replica is away during its flip. Every trace and schedule meets every profile.
    """
    del list_policies
    chosen = _chosen(policy)
    if not trace and not closed:
        exits.leave("nothing to replay: --trace or --closed is needed", exits.USAGE)
    played = _Played(
        traces=tuple(trace or ()),
        schedules=tuple(closed or ()),
        replicas=replicas,
        share=None if recorded else load,
        output_tokens=output_tokens,
        first_minute=first_minute,
        minutes=minutes,
        seed=seed,
    )
    try:
        cases = [(calibration, one) for calibration in _calibrations(profile, context) for one in _loads(calibration, played)]
    except (OSError, ValueError) as error:
        exits.leave(exits.in_words(error), exits.USAGE)
    found = _compare(cases, chosen, replicas=replicas, flip_seconds=flip, guards=guards, explain=explain)
    _show(found, json_file, series=series)
    if plot is not None:
        _plot(found, plot)


def _list_policies() -> None:
    from mtpilot.simulate.catalogue import DESCRIPTIONS, NAMES

    for name, text in DESCRIPTIONS.items():
        typer.echo(
            f"{name:18} {text}{'' if name in NAMES else ' (stands beside the others where the load is open; no choice for --policy)'}"
        )
    raise typer.Exit


def _chosen(policies: list[str] | None) -> list[str]:
    from mtpilot.simulate.catalogue import NAMES

    chosen = policies or list(NAMES)
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        exits.leave(f"no policy {', '.join(unknown)}; there are {', '.join(NAMES)}", exits.USAGE)
    return chosen


def _calibrations(files: list[Path], context_tokens: int) -> "list[Calibration]":
    from mtpilot.reconcile.calibrating import UnusableProfileError, calibrate

    from .profile_files import read_profiles

    found = []
    for named in (named for file in files for named in read_profiles(file)):
        try:
            found.append(calibrate(named.name, named.spec, context_tokens))
        except UnusableProfileError as error:
            raise ValueError(f"{named.file or named.name}: {error}") from error
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """Loads and how they are played. share: of what all replicas serve in mtp mode, at a trace's 95th percentile; None: as recorded."""

    traces: tuple[Path, ...]
    schedules: tuple[Path, ...]
    replicas: int
    share: float | None
    output_tokens: float
    first_minute: int
    minutes: int | None
    seed: int


def _loads(calibration: "Calibration", played: _Played) -> "Iterator[Load]":
    from mtpilot.policy.fluid import FluidFleet
    from mtpilot.simulate.loads import recorded, scaled
    from mtpilot.simulate.schedules import read_schedule
    from mtpilot.simulate.traces import read_trace

    capacity = FluidFleet(calibration.curves, played.replicas, by_latency=False).of(played.replicas, 0).capacity
    for path in played.traces:
        trace = read_trace(path)
        trace = trace.cut(played.first_minute, played.minutes or trace.minutes)
        if trace.minutes < 2:
            raise ValueError(f"{path}: nothing is left of it from minute {played.first_minute} on")
        if played.share is None:
            yield recorded(trace, output_tokens=played.output_tokens)
        else:
            peak = played.share * capacity
            yield scaled(trace, peak_tokens_per_second=peak, seed=played.seed, output_tokens=played.output_tokens)
    for path in played.schedules:
        yield read_schedule(path, output_tokens=played.output_tokens)


def _compare(
    cases: "list[tuple[Calibration, Load]]", chosen: list[str], *, replicas: int, flip_seconds: float, guards: bool, explain: bool
) -> "list[Comparison]":
    from mtpilot.simulate.compare import compare
    from mtpilot.simulate.driver import Site, flip_minutes

    work = sum(load.minutes * (len(chosen) + (not load.closed)) for _, load in cases)
    found = []
    with _progress(work) as advance:
        for calibration, load in cases:
            site = Site(
                curves=calibration.curves, replicas=replicas, flip_minutes=flip_minutes(flip_seconds), output_tokens=load.output_tokens
            )
            found.append(compare(site, load, calibration, chosen, guards=guards, explain=explain, progress=advance))
    return found


@contextmanager
def _progress(work_minutes: int) -> "Iterator[Progress | None]":
    if work_minutes < _PROGRESS_FROM_MINUTES:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("replaying", total=work_minutes)
        yield lambda minutes: progress.update(task, advance=minutes)


def _show(found: "list[Comparison]", json_file: Path | None, *, series: bool) -> None:
    from mtpilot.simulate.report import document, table

    if json_file is not None:
        text = json.dumps({"comparisons": [document(one, series=series) for one in found]}, indent=2, ensure_ascii=False)
        _write(json_file, text)
    if json_file is None or str(json_file) != "-":
        from rich.console import Console

        console = Console(highlight=False)
        for one in found:
            console.print(table(one))


def _write(path: Path, text: str) -> None:
    if str(path) == "-":
        typer.echo(text)
        return
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        exits.leave(str(error), exits.FAILED)


def _plot(found: "list[Comparison]", path: Path) -> None:
    try:
        from mtpilot.drawing import png
        from mtpilot.simulate.plot import comparison
    except ImportError:
        exits.leave(exits.PLOT_NEEDS, exits.FAILED)
    files: list[tuple[Path, Any]] = [
        (path if len(found) == 1 else path.with_stem(f"{path.stem}-{i}"), one) for i, one in enumerate(found, 1)
    ]
    try:
        for file, one in files:
            file.write_bytes(png(comparison(one)))
    except OSError as error:
        exits.leave(str(error), exits.FAILED)
