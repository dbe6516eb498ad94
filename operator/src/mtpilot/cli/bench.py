"""`mtpilot bench`: measure engines, with every answer checked, and write what was measured as an evidence package."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import exits

if TYPE_CHECKING:
    from mtpilot.api.throughput_profile import Acceptance
    from mtpilot.bench.ledger import Ledger
    from mtpilot.bench.planning import Levels
    from mtpilot.bench.prompts import Length, Prompts
    from mtpilot.bench.session import Finished, Options

_CAP = "cap"
_DEFAULT_LEVELS = "1,2,4,8,16,32,64,128,cap"


def bench(
    *,
    urls: Annotated[list[str], typer.Argument(metavar="URL…", help="Engines: URL, MODE=URL or MODE@ROUTE=URL; mode: mtp, batch or mixed.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory of the evidence package; new or empty.")],
    concurrency: Annotated[
        str | None, typer.Option(help=f"Requests at once; cap: the engine's slots. Default: {_DEFAULT_LEVELS}, none above the slots.")
    ] = None,
    rate: Annotated[
        list[float] | None, typer.Option(min=0.001, help="Also an open loop of so many arrivals a second; may be repeated.")
    ] = None,
    duration: Annotated[float, typer.Option(min=1, help="Seconds of an open loop.")] = 60.0,
    sampling: Annotated[list[str] | None, typer.Option(help="greedy or sampled; may be repeated. Default: both.")] = None,
    endpoint: Annotated[list[str] | None, typer.Option(help="chat, completions or generate; may be repeated. Default: chat.")] = None,
    context: Annotated[list[int] | None, typer.Option(min=1, help="Tokens of a prompt; may be repeated. Default: 1000.")] = None,
    output_tokens: Annotated[int, typer.Option(min=48, help="Tokens of an answer.")] = 256,
    natural_end: Annotated[bool, typer.Option("--natural-end", help="Let answers end where their text ends.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Batches of each level; 3 tell the noise.")] = 3,
    requests_per_client: Annotated[int, typer.Option(min=1, help="Requests that each client of a closed loop sends in turn.")] = 1,
    prompts: Annotated[Path | None, typer.Option(help="Your own prompts: JSON lines with prompt, and domain.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Take the lengths of this trace's requests (Azure 2023, Mooncake).")] = None,
    domain: Annotated[list[str] | None, typer.Option(help="Only this domain of the built-in prompts; may be repeated.")] = None,
    model: Annotated[str | None, typer.Option(help="Name of the served model; default: the first that the engine names.")] = None,
    hardware_class: Annotated[str | None, typer.Option(help="HardwareClass of the engines.")] = None,
    image: Annotated[str | None, typer.Option(help="Image of the engines, with its digest.")] = None,
    acceptance: Annotated[str | None, typer.Option(help="Natural, SemiSynthetic or Synthetic, if you know better.")] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="File with the engines' API key.")] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for one request.")] = 600.0,
    look: Annotated[float, typer.Option(min=0.01, help="Seconds between two looks at the engine's load.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Of prompts and arrivals.")] = 0,
    keep_text: Annotated[bool, typer.Option("--keep-text", help="Keep the answers, not only their digests.")] = False,
    go_on: Annotated[bool, typer.Option("--continue", help="Go on with the run in --out; engines may be added to it.")] = False,
    keep_in: Annotated[
        str | None,
        typer.Option(metavar="CONFIGMAP", help="Keep progress and records in this ConfigMap and go on with them; for Jobs."),
    ] = None,
    model_source: Annotated[str | None, typer.Option(help="With --keep-in: the model of the profile, as in model.source.")] = None,
    revision: Annotated[str | None, typer.Option(help="With --keep-in: its revision.")] = None,
    plots: Annotated[bool, typer.Option(help="Plots in the package, where matplotlib is installed.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure how many tokens engines serve at rising concurrency, check every answer for leaks, and write the evidence.

    A run that is stopped keeps its whole batches in OUT.part; --continue goes on. Exits with 1 where an answer held another request's
    marker, or a request failed.
    """
    from mtpilot.bench.answers import Endpoint
    from mtpilot.bench.describing import parse_target
    from mtpilot.bench.ledger import Ledger
    from mtpilot.bench.planning import Settings
    from mtpilot.bench.session import Options
    from mtpilot.evidence.records import Sampling

    try:
        chosen, lengths = _prompts(prompts, trace, domain or [])
        settings = Settings(
            levels=_levels(concurrency, open_only=bool(rate)),
            rates=tuple(rate or ()),
            duration_seconds=duration,
            endpoints=tuple(dict.fromkeys(Endpoint(one) for one in endpoint or ["chat"])),
            samplings=tuple(dict.fromkeys(Sampling(one) for one in sampling or list(Sampling))),
            contexts=_contexts(context, chosen),
            output_tokens=output_tokens,
            repeats=repeats,
            rounds=requests_per_client,
            whole_length=not natural_end,
            seed=seed,
            lengths=lengths,
        )
        options = Options(
            targets=tuple(parse_target(url) for url in urls),
            settings=settings,
            prompts=chosen,
            headers=_headers(api_key_file),
            model=model,
            hardware_class=hardware_class,
            image=image,
            acceptance=_acceptance(acceptance),
            keep_text=keep_text,
            timeout_seconds=timeout,
            look_seconds=look,
            plots=plots,
        )
    except (OSError, ValueError) as error:
        exits.leave(str(error), exits.USAGE)
    if keep_in is not None:
        found = _kept(options, out, keep_in, model_source, revision)
    else:
        found = _measured(options, _ledger(Ledger(out), out, go_on=go_on), go_on=go_on)
    _show(found, out, as_json=as_json)
    if found.leaked or found.failed:
        raise typer.Exit(exits.FAILED)


def _levels(text: str | None, *, open_only: bool) -> "Levels":
    """Raises ValueError for a word that is neither a number nor cap."""
    from mtpilot.bench.planning import Levels

    if text is None:
        return Levels(concurrency=(), at_cap=False) if open_only else Levels()
    words = [word.strip() for word in text.split(",") if word.strip()]
    bad = [word for word in words if word != _CAP and not (word.isdigit() and int(word) > 0)]
    if bad:
        raise ValueError(f"--concurrency: {', '.join(bad)} is neither a number from 1 on nor {_CAP}")
    return Levels(concurrency=tuple(int(word) for word in words if word != _CAP), at_cap=_CAP in words, above_cap=True)


def _prompts(file: Path | None, trace: Path | None, domains: list[str]) -> "tuple[Prompts, tuple[Length, ...]]":
    """Raises OSError or ValueError."""
    from mtpilot.bench.lengths import read_lengths
    from mtpilot.bench.prompts import built_in, given

    if file is not None and (domains or trace is not None):
        raise ValueError("--prompts goes without --domain and --trace: your prompts have their own kinds and lengths")
    lengths = read_lengths(trace) if trace is not None else ()
    if file is not None:
        return given(file.read_text(encoding="utf-8"), file.name), lengths
    return (built_in().only(domains) if domains else built_in()), lengths


def _contexts(told: list[int] | None, prompts: "Prompts") -> tuple[int, ...]:
    """Those told; of a user's own prompts their mean length, as far as it can be guessed."""
    from mtpilot.bench.prompts import Given

    if told:
        return tuple(dict.fromkeys(told))
    return (prompts.mean_tokens,) if isinstance(prompts, Given) else (1000,)


def _headers(api_key_file: Path | None) -> dict[str, str]:
    """Raises OSError or ValueError."""
    if api_key_file is None:
        return {}
    key = api_key_file.read_text(encoding="utf-8").strip()
    if not key or not key.isprintable():
        raise ValueError(f"{api_key_file}: no key in it")
    return {"Authorization": f"Bearer {key}"}


def _acceptance(text: str | None) -> "Acceptance | None":
    from mtpilot.api.throughput_profile import Acceptance

    return None if text is None else Acceptance(text)


def _kept(options: "Options", out: Path, config_map: str, model_source: str | None, revision: str | None) -> "Finished":
    from .bench_kept import Kept, measure_kept
    from .profile_making import Facts

    facts = Facts(model=model_source, revision=revision, hardware_class=options.hardware_class)
    return measure_kept(options, out, Kept(config_map=config_map, facts=facts))


def _ledger(ledger: "Ledger", out: Path, *, go_on: bool) -> "Ledger":
    if go_on and not ledger.is_begun:
        exits.leave(f"{out}: no run to go on with", exits.NOT_FOUND)
    if not go_on and not ledger.is_free:
        exits.leave(
            f"{out} is not empty, or {out.name}.part holds a run that was stopped: --continue it, or take another --out", exits.USAGE
        )
    return ledger


def _measured(options: "Options", ledger: "Ledger", *, go_on: bool) -> "Finished":
    import asyncio
    import signal

    from mtpilot.bench.engine import BenchError
    from mtpilot.bench.session import measure

    from .bench_progress import shown

    async def run() -> "Finished":
        task = asyncio.current_task()
        if task is not None:
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with shown(options.settings.duration_seconds) as on_progress:
            return await measure(options, ledger, go_on=go_on, on_progress=on_progress)

    try:
        return asyncio.run(run())
    except (asyncio.CancelledError, KeyboardInterrupt):
        exits.leave("stopped; what was measured is kept: --continue goes on from there", exits.FAILED)
    except (BenchError, OSError, ValueError) as error:
        exits.leave(str(error), exits.FAILED)


def _show(found: "Finished", out: Path, *, as_json: bool) -> None:
    from .bench_show import document, show

    result = document(found, str(out))
    if as_json:
        typer.echo(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        show(result)
