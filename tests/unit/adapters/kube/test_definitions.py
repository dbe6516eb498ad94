"""CRDs older than the operator are found at start; newer ones, and a missing right to read them, do not stop it."""

from copy import deepcopy
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from mtpilot.adapters.kube.client import ApiError, KubeClient
from mtpilot.adapters.kube.definitions import outdated_definitions
from mtpilot.adapters.kube.paths import Ref
from mtpilot.api.crds import KINDS, crd


class Served:
    """Answers `get` from the given definitions; an error in place of one is raised."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {kind.crd_name: deepcopy(crd(kind)) for kind in KINDS}
        self.error: ApiError | None = None

    async def get(self, ref: Ref) -> Any:
        if self.error is not None:
            raise self.error
        return self.definitions.get(ref.name)

    def fields(self, name: str, part: str) -> dict[str, Any]:
        schema = self.definitions[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        found: dict[str, Any] = schema["properties"][part]["properties"]
        return found


async def outdated(served: Served) -> tuple[str, ...]:
    return await outdated_definitions(cast("KubeClient", served))


async def test_the_same_and_newer_ones_fit() -> None:
    served = Served()
    served.fields("inferenceservices.mtpilot.dev", "status")["later"] = {"type": "string"}
    assert await outdated(served) == ()


async def test_missing_fields_are_named() -> None:
    served = Served()
    status = served.fields("inferenceservices.mtpilot.dev", "status")
    del status["loop"]
    del status["slots"]["items"]["properties"]["phase"]
    del served.fields("throughputprofiles.mtpilot.dev", "status")["verdict"]
    served.definitions["hardwareclasses.mtpilot.dev"] = None
    assert set(await outdated(served)) == {
        "inferenceservices.mtpilot.dev lacks status.slots.phase, status.loop",
        "throughputprofiles.mtpilot.dev lacks status.verdict",
        "hardwareclasses.mtpilot.dev is not there",
    }


async def test_without_the_right_it_is_a_warning() -> None:
    served = Served()
    served.error = ApiError(status=403, reason="Forbidden", message="may not")
    with capture_logs() as logs:
        assert await outdated(served) == ()
    assert [line["log_level"] for line in logs] == ["warning"]


async def test_another_refusal_is_raised() -> None:
    served = Served()
    served.error = ApiError(status=500, reason="", message="broken")
    with pytest.raises(ApiError):
        await outdated(served)
