"""What `mtpilot profile` prints, as data and in words."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import typer

from mtpilot.api.crds import THROUGHPUT_PROFILE, crd
from mtpilot.curves.checks import problems, warnings
from mtpilot.curves.curve import InvalidCurve
from mtpilot.curves.of_profile import curve_pair
from mtpilot.curves.report import fit_words, sentences, status_of

from .profile_files import parse

if TYPE_CHECKING:
    from mtpilot.api.throughput_profile import ThroughputProfileSpec

    from .profile_making import Made


def made_document(made: "Made") -> dict[str, Any]:
    """What was made: fit, conclusions and warnings."""
    return {
        "name": made.named.name,
        **_concluded(made.named.spec),
        "whyInterpolation": made.why_interpolation or None,
        "notes": list(made.notes),
    }


def check_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome of a check: `problems` make the profile unusable, `warnings` do not."""
    name = str((document.get("metadata") or {}).get("name", ""))
    try:
        named = parse(document)
    except ValueError as error:
        return {"name": name, "problems": [*str(error).splitlines(), *_unknown(document)], "warnings": []}
    found = problems(named.spec) + _unknown(document)
    if not found:
        try:
            curve_pair(named.spec, 1)
        except InvalidCurve as error:
            found = [str(error)]
    if found:
        return {"name": name, "problems": found, "warnings": []}
    return {"name": name, "problems": [], **_concluded(named.spec)}


def _unknown(document: Mapping[str, Any]) -> list[str]:
    schema = crd(THROUGHPUT_PROFILE)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return unknown_fields(document.get("spec"), schema["properties"]["spec"], "spec")


def unknown_fields(given: object, schema: Mapping[str, Any], path: str) -> list[str]:
    """Fields of a manifest that the API does not have: a typing error would be lost without a word, or hide what is missing."""
    known = schema.get("properties")
    if isinstance(given, Mapping) and known is not None:
        return [text for key, value in given.items() for text in _unknown_field(value, known, str(key), path)]
    if isinstance(given, list) and "items" in schema:
        return [text for index, item in enumerate(given) for text in unknown_fields(item, schema["items"], f"{path}[{index}]")]
    return []


def _unknown_field(value: object, known: Mapping[str, Any], key: str, path: str) -> list[str]:
    if key in known:
        return unknown_fields(value, known[key], f"{path}.{key}")
    near = get_close_matches(key, known, n=1)
    return [f"{path}.{key}: unknown field" + (f"; is {near[0]} meant?" if near else "")]


def show_made(document: Mapping[str, Any], *, to_stderr: bool) -> None:
    """A few lines for a person."""
    for line in _lines(document):
        typer.echo(line, err=to_stderr)


def show_check(document: Mapping[str, Any]) -> None:
    """The same for a check."""
    if document["problems"]:
        typer.echo(f"{document['name']}: not usable")
        for problem in document["problems"]:
            typer.echo(f"  {problem}")
        return
    for line in _lines(document):
        typer.echo(line)


def _concluded(spec: "ThroughputProfileSpec") -> dict[str, Any]:
    status = status_of(spec).model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"observed_generation", "message", "fit", "conditions"}
    )
    return {
        "fitWords": fit_words(spec),
        "fit": None if spec.fit is None else spec.fit.model_dump(mode="json", by_alias=True, exclude_none=True),
        **status,
        "words": sentences(spec),
        "warnings": warnings(spec),
    }


def _lines(document: Mapping[str, Any]) -> list[str]:
    why = f": {document['whyInterpolation']}" if document.get("whyInterpolation") else ""
    return [
        str(document["name"]),
        f"  {document['fitWords']}{why}.",
        *(f"  {sentence}." for sentence in document["words"]),
        *(f"  Mind: {warning}." for warning in (*document["warnings"], *document.get("notes", ()))),
    ]
