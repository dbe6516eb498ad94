"""The Dockerfiles: what a registry's or a cluster's policy will ask of the images."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.chart_rendering import ROOT

FILES = sorted((ROOT / "images").glob("*/Dockerfile"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_two_stages_of_which_the_second_has_no_shell_with_locked_packages_and_no_root(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE_IMAGE}", "scratch"]
    final = text.rpartition("\nFROM ")[2]
    assert "USER 65532:65532" in final
    assert re.search(r'^ENTRYPOINT \["', final, re.MULTILINE)
    assert "\nRUN " not in final
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    assert {"version", "revision", "source", "licenses"} <= set(re.findall(r"opencontainers\.image\.(\w+)=", final))
    copied = [word for line in text.splitlines() if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]]
    assert all((ROOT / word).exists() for word in copied if not word.startswith("out/"))


def test_what_builds_the_wheels_is_locked_by_hash() -> None:
    text = (ROOT / "images/build-requirements.txt").read_text()
    assert len(re.findall(r"^\S+==\S+", text, re.MULTILINE)) >= 5
    assert text.count("--hash=sha256:") >= 10
    assert "://" not in re.sub(r"#.*", "", text)


def test_without_docker_make_says_so(tmp_path: Path) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = ["make", "--no-print-directory", "--assume-old=env", "--assume-old=.venv/.synced", "images"]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "needs a running docker" in result.stderr
