"""`mtpilot evidence`: check a package of measurements, set two side by side, make one of another tool's files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from . import exits
from .evidence_import import importing

if TYPE_CHECKING:
    from mtpilot.evidence.package import Files, Package
    from mtpilot.evidence.verify import Verification

evidence = typer.Typer(
    name="evidence",
    no_args_is_help=True,
    help="Check, compare and import evidence: records of a benchmark with everything that follows from them.",
    epilog=exits.EPILOG,
)
evidence.add_typer(importing)

_BYTES_PER_SECOND = 8_000_000  # of records, on one core
_SHOWN_FROM_BYTES = 8_000_000

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@evidence.command("verify")
def verify_package(
    directory: Annotated[Path, typer.Argument(help="Folder of the package.")],
    *,
    records_sha256: Annotated[
        str | None, typer.Option("--records-sha256", help="What the digest of records.jsonl must be, from where it was published.")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", help="ThroughputProfile whose recordsSha256 must be the digest of these records.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make every figure and table again from the records, and check every digest. Exit status 1 when anything differs.

    Nothing is signed: only a digest from elsewhere (--records-sha256, --profile) tells a package that was made anew as a whole.
    """
    from mtpilot.evidence.files import read_files
    from mtpilot.evidence.package import InvalidPackage

    from .evidence_show import show_verification, verification_document

    if records_sha256 is not None and profile is not None:
        exits.leave("give --records-sha256 or --profile, not both", exits.USAGE)
    try:
        wanted = _digest_in(profile) if profile is not None else records_sha256.lower() if records_sha256 is not None else None
        files = read_files(directory)
    except InvalidPackage as error:
        exits.leave(f"{directory}: {error}", exits.FAILED)
    except (OSError, ValueError) as error:
        exits.leave(str(error), exits.USAGE)
    found = _verify(files, wanted)
    document = verification_document(found, len(files), anchored=wanted is not None)
    if as_json:
        typer.echo(json.dumps({"directory": str(directory), **document}, indent=2, ensure_ascii=False))
    else:
        show_verification(str(directory), document)
    if found.problems:
        raise typer.Exit(exits.FAILED)


@evidence.command("compare")
def compare_packages(
    first: Annotated[Path, typer.Argument(help="Folder of a package.")],
    second: Annotated[Path, typer.Argument(help="Folder of another; ratios are this one over the first.")],
    as_json: AsJson = False,
) -> None:
    """Set two runs side by side at every level that both measured, with the 90 % interval of each ratio over the repeats.

    Says where the two are unlike things. Runs of one mode each are compared mode against mode. Packages are verified first.
    """
    from mtpilot.evidence.compare import compare

    from .evidence_show import comparison_document, show_comparison

    here, there = _verified(first), _verified(second)
    document = comparison_document(compare(here, there), (str(first), str(second)))
    if as_json:
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        show_comparison(document)


def _verify(files: "Files", records_sha256: str | None = None) -> "Verification":
    from rich.console import Console

    from mtpilot.evidence.verify import verify

    size = sum(map(len, files.values()))
    if size < _SHOWN_FROM_BYTES:
        return verify(files, records_sha256=records_sha256)
    with Console(stderr=True).status(f"verifying {size >> 20} MiB, about {size / _BYTES_PER_SECOND:.0f} s"):
        return verify(files, records_sha256=records_sha256)


def _verified(directory: Path) -> "Package":
    from mtpilot.evidence.files import read_files
    from mtpilot.evidence.package import InvalidPackage, read_package

    try:
        files = read_files(directory)
        found = _verify(files)
        if found.problems:
            raise InvalidPackage("\n".join(found.problems))
        return read_package(files)
    except InvalidPackage as error:
        _leave_unverified(directory, error)
    except OSError as error:
        exits.leave(str(error), exits.USAGE)


def _leave_unverified(directory: Path, error: Exception) -> NoReturn:
    exits.leave(f"{directory} is not to be trusted:\n{error}", exits.FAILED)


def _digest_in(path: Path) -> str:
    from .profile_files import read_profiles

    digests = {named.spec.provenance.records_sha256 for named in read_profiles(path)} - {None}
    if len(digests) != 1:
        raise ValueError(f"{path}: {len(digests)} different recordsSha256, one is needed")
    return str(digests.pop())
