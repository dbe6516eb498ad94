"""What goes into the kind cluster's images, and what docker is told, without docker."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from e2e.offline import network
from e2e.offline.archive import Content, write_image
from e2e.offline.commands import OfflineError, digest, pipe, run
from e2e.offline.oci_runtime import described_by, lacking, without


def test_runtime_knows_what_this_machine_lacks() -> None:
    assert lacking("Name:\tx\nCapBnd:\t000001ffffffffff\n") == set()
    assert lacking("CapBnd:\t000001fffeffffff\n") == {"CAP_SYS_RESOURCE"}


def test_runtime_takes_out_what_is_lacking_and_nothing_else() -> None:
    bundle = {"process": {"capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_RESOURCE"]}}, "hostname": "x"}
    kept = {"process": {"capabilities": {"bounding": ["CAP_CHOWN"]}}, "hostname": "x"}
    assert without(bundle, {"CAP_SYS_RESOURCE"}) == kept
    assert without({"args": ["sh"]}, {"CAP_SYS_RESOURCE"}) == {"args": ["sh"], "capabilities": {}}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ("--root /r create --bundle /b --pid-file /p x", "/b/config.json"),
        ("create --bundle=/b x", "/b/config.json"),
        ("run x", "config.json"),
        ("--root /r exec --process /tmp/p --detach x", "/tmp/p"),
        ("exec x sh", None),
        ("delete --force x", None),
    ],
)
def test_runtime_finds_the_file_that_runc_will_read(arguments: str, path: str | None) -> None:
    assert described_by(arguments.split()) == (Path(path) if path else None)


def test_image_is_one_layer_and_the_same_each_time(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    content = Content(files={"usr/local/bin/program": program}, folders=("tmp",), entrypoint=("/program",), user="65532:65532")
    for name in ("a.tar", "b.tar"):
        write_image(tmp_path / name, "name:tag", content)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    with tarfile.open(tmp_path / "a.tar") as image:
        (manifest,) = json.load(image.extractfile("manifest.json") or pytest.fail("no manifest"))
        config = json.load(image.extractfile(manifest["Config"]) or pytest.fail("no configuration"))
        with tarfile.open(fileobj=image.extractfile(manifest["Layers"][0])) as layer:
            modes = {entry.name: (entry.mode, entry.uid) for entry in layer}
    assert manifest["RepoTags"] == ["name:tag"]
    assert config["config"]["User"] == "65532:65532"
    assert modes["tmp"] == (0o1777, 0)
    assert modes["usr/local/bin/program"] == (0o755, 0)


def test_digest_follows_content_and_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = digest(["x", tmp_path])
    assert first == digest(["x", tmp_path])
    (tmp_path / "a").rename(tmp_path / "b")
    assert digest(["x", tmp_path]) != first


def test_a_failing_program_is_told_with_its_last_lines() -> None:
    assert run(["sh", "-c", "cat; echo b"], text="a\n") == "a\nb\n"
    with pytest.raises(OfflineError, match=r"ended with 3:\nwhy"):
        run(["sh", "-c", "echo why; exit 3"])
    with pytest.raises(OfflineError, match="ended with 0, 4"):
        pipe(["true"], ["sh", "-c", "exit 4"])


def test_each_node_has_routes_to_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = {}

    def docker(*arguments: str, text: str) -> str:
        scripts[arguments[2]] = (arguments[-1], json.loads(text))
        return ""

    monkeypatch.setattr(network, "docker", docker)
    nodes = [network.NodeNetwork(name=f"n{i}", address=f"172.18.0.{i}", pod_block=f"10.244.{i}.0/24") for i in (2, 3)]
    network.connect(nodes)
    script, plugins = scripts["n2"]
    assert "ip route replace 10.244.3.0/24 via 172.18.0.3" in script
    assert "10.244.2.0/24 via" not in script
    assert plugins["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.2.0/24"}]]
