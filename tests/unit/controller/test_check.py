"""What keeps an operator from starting is told with what mends it, before anything is done."""

from typing import Any, cast

import pytest

from mtpilot.adapters.kube.client import KubeClient
from mtpilot.controller.operator import StartError, check_cluster


class OldCluster:
    """Every right is granted, and its CRDs have no fields."""

    async def review(self, manifest: Any) -> Any:
        return {"status": {"allowed": True}}

    async def list_all(self, *_: Any, **__: Any) -> list[Any]:
        return []

    async def get(self, ref: Any) -> Any:
        schema = {"properties": {"apiVersion": {}, "kind": {}, "metadata": {}, "spec": {"x-kubernetes-preserve-unknown-fields": True}}}
        return {"spec": {"versions": [{"name": "v1alpha1", "served": True, "schema": {"openAPIV3Schema": schema}}]}}


async def test_older_crds_end_the_start() -> None:
    with pytest.raises(StartError, match=r"older than this operator.* lacks status.*kubectl apply --server-side -f crds/"):
        await check_cluster(cast("KubeClient", OldCluster()), ())
