"""Lint the chart as it is rendered from each of `ci/*-values.yaml`.

    python -m e2e.chart_lint

`helm lint --strict`; every object against the schemas of the oldest Kubernetes that the chart takes and of the newest that is known; and
checkov's policies, whose findings are waived only by a line with a reason in charts/waivers.yaml.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e import toolchain
from e2e.chart import CHART, ROOT

WAIVERS = ROOT / "charts" / "waivers.yaml"
_CHECKOV = "checkov==3.3.30"
_SCHEMAS = "kubernetes-validate==1.37.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A policy that an object does not meet; `subject` is KIND/NAME."""

    check: str
    subject: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """A check that the named objects (globs of KIND/NAME) need not meet, and why."""

    check: str
    objects: tuple[str, ...]
    reason: str

    def covers(self, finding: Finding) -> bool:
        """Tell whether the finding is meant."""
        return self.check == finding.check and any(fnmatch.fnmatchcase(finding.subject, pattern) for pattern in self.objects)


def waivers() -> list[Waiver]:
    """What charts/waivers.yaml says."""
    return [
        Waiver(check=entry["check"], objects=tuple(entry["objects"]), reason=entry["reason"])
        for entry in yaml.safe_load(WAIVERS.read_text("utf-8"))
    ]


def findings(report: str) -> set[Finding]:
    """The failed checks of checkov's JSON report; a pod of a template is named after its controller."""
    found = set()
    for failed in json.loads(report)["results"]["failed_checks"]:
        kind, _, name = failed["resource"].split(".app.kubernetes.io/")[0].split(".", 2)
        found.add(Finding(check=failed["check_id"], subject=f"{kind}/{name}", title=failed["check_name"]))
    return found


def problems(found: Iterable[Finding], waived: list[Waiver]) -> list[str]:
    """Findings without a waiver, and waivers without a finding."""
    found = list(found)
    said = [f"{one.subject}: {one.check} {one.title}" for one in found if not any(waiver.covers(one) for waiver in waived)]
    idle = [waiver for waiver in waived if not any(waiver.covers(one) for one in found)]
    return sorted(said) + [f"{WAIVERS.name}: {waiver.check} meets no finding any more: delete it" for waiver in idle]


def oldest() -> str:
    """The oldest Kubernetes that the chart takes, as MAJOR.MINOR."""
    said = re.match(r">=(\d+\.\d+)", yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))["kubeVersion"])
    assert said is not None  # noqa: S101  the chart's own file
    return said[1]


def _tool(requirement: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [os.environ.get("UV", "uv"), "tool", "run", "--quiet", "--from", requirement, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _render(helm: Path, folder: Path) -> list[str]:
    """Write each scenario's manifests into the folder; gives what Helm itself finds."""
    said = []
    for values in sorted((CHART / "ci").glob("*-values.yaml")):
        linted = subprocess.run(
            [helm, "lint", "--strict", "--quiet", CHART, "--values", values], capture_output=True, text=True, check=False
        )
        if linted.returncode:
            said.append(f"{values.name}: {linted.stdout}{linted.stderr}".strip())
        command: list[str | Path] = [helm, "template", "mtpilot", CHART, "--namespace", "mtpilot-system", "--values", values]
        rendered = subprocess.run(command, capture_output=True, text=True, check=True)
        (folder / values.name).write_text(rendered.stdout, "utf-8")
    return said


def _validate(files: list[Path]) -> list[str]:
    """Objects that a schema refuses; custom resources have none here."""
    said = []
    for version in ((), ("-k", oldest())):
        result = _tool(_SCHEMAS, "kubernetes-validate", "--strict", "--quiet", "--no-warn", *version, *files)
        if result.returncode:
            said.append((result.stdout + result.stderr).strip())
    return said


def main() -> int:
    helm = toolchain.ensure(["helm"])["helm"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        said = _render(helm, folder)
        said += _validate(sorted(folder.iterdir()))
        options = ("--skip-download", "--framework", "kubernetes", "--compact", "--quiet", "--output", "json")
        report = _tool(_CHECKOV, "checkov", "--directory", folder, *options)
    try:
        said += problems(findings(report.stdout), waivers())
    except (ValueError, KeyError):
        said.append(f"no report by checkov:\n{report.stdout}{report.stderr}")
    print("\n".join(said) or f"chart: no finding, {len(waivers())} waived by {WAIVERS.relative_to(ROOT)}")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
