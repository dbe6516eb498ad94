"""The scenarios run on the same cluster and with the same operator processes as the controller's own tests."""

from __future__ import annotations

from tests.integration.controller.conftest import operator, operators, prepared_cluster, scene

__all__ = ["operator", "operators", "prepared_cluster", "scene"]
