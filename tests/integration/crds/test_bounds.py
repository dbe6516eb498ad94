"""Every schema bound against the real API server: just outside is refused at that field, just inside is not."""

from collections.abc import Iterator
from typing import Any

import pytest

from mtpilot.api.crds import KINDS, Kind, crd
from tests.sample_files import full_documents

from .bounds import Case, cases
from .conftest import Server
from .validation import Refusal, try_create, try_status

pytestmark = pytest.mark.integration


def bound_cases(kind: Kind) -> Iterator[tuple[Kind, dict[str, Any], Case]]:
    """Cases of all full documents, each place once."""
    schemas = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    seen: set[str] = set()
    for document in full_documents(kind.kind):
        for part in ("spec", "status"):
            for case in cases(schemas[part], part, document[part]) if part in document else ():
                if str(case) not in seen:
                    seen.add(str(case))
                    yield kind, document, case


ALL = [entry for kind in KINDS for entry in bound_cases(kind)]


async def send(server: Server, kind: Kind, document: dict[str, Any], case: Case) -> Refusal | None:
    if case.part == "status":
        return await try_status(server.client, kind.kind, "stored", case.value, server.namespace)
    return await try_create(server.client, document | {"spec": case.value}, server.namespace)


@pytest.mark.parametrize(("kind", "document", "case"), ALL, ids=[f"{kind.kind}-{case}" for kind, _, case in ALL])
async def test_bound(server: Server, kind: Kind, document: dict[str, Any], case: Case):
    refusal = await send(server, kind, document, case)
    said = refusal.at(case.field) if refusal else ""
    assert (case.words in said) == case.refused, refusal and refusal.message


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
@pytest.mark.parametrize("part", ["spec", "status"])
async def test_an_unknown_field_is_refused_by_name(server: Server, kind: Kind, part: str):
    document = full_documents(kind.kind)[0]
    value = document[part] | {"unheardOf": 1}
    case = Case(part=part, value=value, field=f"{part}.unheardOf", what="unknown", words="unknown field")
    refusal = await send(server, kind, document, case)
    assert refusal is not None
    assert f'unknown field "{part}.unheardOf"' in refusal.message


async def test_a_curve_or_point_that_stands_twice_is_refused(server: Server):
    document = full_documents("ThroughputProfile")[0]
    curve = document["spec"]["curves"][1]
    document["spec"]["curves"] = [curve, curve | {"slots": 99}]
    refusal = await try_create(server.client, document, server.namespace)
    assert refusal is not None
    assert "Duplicate" in refusal.at("spec.curves[1]")
    document["spec"]["curves"] = [curve | {"points": [curve["points"][0]] * 2}]
    refusal = await try_create(server.client, document, server.namespace)
    assert refusal is not None
    assert "Duplicate" in refusal.at("spec.curves[0].points[1]")


async def test_a_number_where_a_text_belongs_is_refused(server: Server):
    document = full_documents("InferenceService")[0]
    document["spec"]["modes"]["mtp"]["memFractionStatic"] = 0.85
    refusal = await try_create(server.client, document, server.namespace)
    assert refusal is not None
    assert "must be of type string" in refusal.at("spec.modes.mtp.memFractionStatic")
