"""The same service where LeaderWorkerSet is not installed, as in the clusters of most users."""

from __future__ import annotations

from e2e.clusters.local import LocalCluster
from tests.integration.controller.conftest import Operator
from tests.integration.controller.scene import Scene
from tests.integration.leader_worker_set.two_nodes import TWO_NODES, two_node_service
from tests.integration.scenarios.support import until_condition


async def test_a_cluster_without_leader_worker_set_is_told_what_is_missing(
    prepared_cluster: LocalCluster, scene: Scene, operator: Operator
) -> None:
    await prepared_cluster.apply([TWO_NODES])
    await scene.apply(two_node_service())
    condition = await until_condition(scene, "Degraded", "True", seconds=40)
    assert condition["reason"] == "ReconcileFailed"
    assert "install LeaderWorkerSet 0.7 or later" in condition["message"]
