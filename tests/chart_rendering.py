"""The chart through the real Helm, for its tests."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

import yaml

from e2e import toolchain

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "mtpilot"
SCENARIOS = sorted((CHART / "ci").glob("*-values.yaml"))
Manifest = dict[str, Any]


@functools.cache
def helm_binary() -> Path:
    return toolchain.ensure(["helm"])["helm"]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm_binary(), *arguments], capture_output=True, text=True, check=False)


@functools.cache
def template(*arguments: str, name: str = "mtpilot") -> str:
    """The rendered chart as text; AssertionError with Helm's words where it refuses."""
    result = helm("template", name, str(CHART), "--namespace", "mtpilot-system", *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refusal(*arguments: str) -> str:
    """What Helm says to values that it refuses."""
    result = helm("template", "mtpilot", str(CHART), *arguments)
    assert result.returncode != 0, f"accepted: {arguments}"
    return result.stderr


def rendered(*arguments: str, name: str = "mtpilot") -> list[Manifest]:
    return [found for found in yaml.safe_load_all(template(*arguments, name=name)) if found]


def only(manifests: list[Manifest], kind: str, component: str | None = None) -> Manifest:
    """The one object of a kind (and component)."""
    found = [
        manifest
        for manifest in manifests
        if manifest["kind"] == kind and component in (None, manifest["metadata"].get("labels", {}).get("app.kubernetes.io/component"))
    ]
    assert len(found) == 1, [manifest["metadata"]["name"] for manifest in found]
    return found[0]
