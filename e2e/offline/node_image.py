"""The node image: what kind's own image builds do, from a Debian tree, kind's files and the binaries of one Go module.

Kind's own `build node-image` cannot be used: it pulls its base and the control plane's images.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console

from e2e import toolchain
from e2e.offline import control_plane, debian
from e2e.offline.commands import digest, kind_root, pipe, run
from e2e.offline.docker import docker, has_image, import_tree, load_archive, save_archive
from e2e.toolchain import cache
from e2e.toolchain.catalogue import KIND_MODULE, KUBERNETES_VERSION, NODE_TOOLS
from e2e.toolchain.install import MODULES
from e2e.toolchain.progress import Step, step

REPOSITORY = "mtpilot-e2e/node"
_CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_ON_PATH = ("containerd", "ctr", "containerd-shim-runc-v2", "crictl")
_CNI = ("host-local", "loopback", "ptp", "portmap")
_UNITS = ("kubelet", "containerd", "undo-mount-hacks")
_HERE = Path(__file__).parent

# As kind's Dockerfile: a node in a container starts only what Kubernetes needs.
_CLEAN_UP = """
cd /usr/lib/systemd/system
rm -f sysinit.target.wants/systemd-tmpfiles-setup.service multi-user.target.wants/* local-fs.target.wants/* basic.target.wants/*
rm -f sockets.target.wants/*udev* sockets.target.wants/*initctl*
rm -rf /etc/systemd/system/*.wants/*
echo ReadKMsg=no >> /etc/systemd/journald.conf
ln -sf /usr/lib/systemd/systemd /usr/sbin/init
ln -sf /dev/null /etc/systemd/system/systemd-binfmt.service
mkdir -p /etc/systemd/system/multi-user.target.wants /etc/kubernetes/manifests /usr/local/sbin /kind/manifests /LICENSES
ln -sf /usr/sbin/runc /usr/local/sbin/runc
"""
_STORAGE = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
"""
_START_CONTAINERD = """
nohup containerd >/tmp/containerd.log 2>&1 &
for i in $(seq 100); do ctr version >/dev/null 2>&1 && exit 0; sleep 0.2; done
tail -20 /tmp/containerd.log; exit 1
"""


def reference() -> str:
    """Give the name of the image that the present pins and sources make."""
    module = MODULES / KIND_MODULE
    sources: list[str | Path] = [KUBERNETES_VERSION, debian.SUITE, *debian.NODE_PACKAGES, module, MODULES / "gomod" / "go.sum"]
    return f"{REPOSITORY}:{digest(sources)}"


def ensure(console: Console) -> str:
    """Give the name of the node image, which docker then has: found there, loaded from the cache, or built."""
    name = reference()
    if has_image(name):
        return name
    archive = kind_root() / f"node-{name.rpartition(':')[2]}.tar.zst"
    if archive.exists():
        with step(console, "node image: loading it from the cache"):
            load_archive(archive)
        return name
    binaries = toolchain.ensure([*NODE_TOOLS, *_CONTROL_PLANE], console=console)
    tree = debian.tree("node", debian.NODE_PACKAGES, console)
    with cache.scratch(kind_root()) as folder:
        with step(console, "node image: building it") as current:
            _build(name, tree, binaries, folder, current)
        with step(console, "node image: writing it to the cache"):
            save_archive(name, archive)
    return name


def _build(name: str, tree: Path, binaries: Mapping[str, Path], folder: Path, current: Step) -> None:
    base = f"{REPOSITORY}-base:{name.rpartition(':')[2]}"
    current.note("kind's files and the binaries")
    overlay = _overlay(binaries, folder / "overlay")
    current.note("images of the control plane")
    (folder / "images").mkdir()
    archives = control_plane.write_all(binaries, tree, (overlay / "etc/containerd/config.toml").read_text(), folder / "images")
    current.note("Debian as an image")
    import_tree(tree, base)
    with _container(base) as container:
        pipe(["tar", "-C", overlay, "--owner=0", "--group=0", "-c", "."], ["docker", "cp", "-", f"{container}:/"])
        docker("exec", container, "bash", "-ec", _CLEAN_UP + _enable())
        docker("exec", container, "bash", "-c", _START_CONTAINERD)
        for archive in archives:
            current.note(archive.name)
            inside = f"/tmp/{archive.name}"
            docker("cp", archive, f"{container}:{inside}")
            options = ("--label=io.cri-containerd.pinned=pinned", "--all-platforms", "--no-unpack", "--digests")
            docker("exec", container, "ctr", "--namespace=k8s.io", "images", "import", *options, inside)
        docker("exec", container, "bash", "-c", "pkill -x containerd; sleep 1; rm -rf /tmp/*")
        current.note("commit")
        settings = ("ENV container=docker", 'ENTRYPOINT [ "/usr/local/bin/entrypoint", "/sbin/init" ]')
        docker("commit", *(part for setting in settings for part in ("--change", setting)), container, name)
    docker("image", "rm", "--no-prune", base)


def _overlay(binaries: Mapping[str, Path], target: Path) -> Path:
    """What stands over Debian's tree: kind's files, the programs, and containerd's description of a container."""
    files = Path(_go("list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kind").strip()) / "images/base/files"
    for source in (path for path in files.rglob("*") if path.is_file()):
        inside = source.relative_to(files)
        mode = 0o755 if {"bin"} & set(inside.parts) else 0o644  # a module's files carry no mode of their own
        _place(source, target / inside, mode)
    for folder, names in (("usr/local/bin", _ON_PATH), ("opt/cni/bin", _CNI), ("usr/bin", ("kubeadm", "kubelet", "kubectl"))):
        for name in names:
            _place(binaries[name], target / folder / name, 0o755)
    containerd = target / "etc/containerd/config.toml"
    # Where the machine lacks CAP_SYS_RESOURCE, nobody may lower oom_score_adj: containerd must clamp it, as kind does for rootless.
    containerd.write_text(containerd.read_text().replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true"))
    description = json.loads(run([binaries["ctr"], "oci", "spec"]))
    description.setdefault("hooks", {}).setdefault("createContainer", []).append({"path": "/kind/bin/mount-product-files.sh"})
    description["process"].pop("rlimits", None)
    (target / "etc/containerd/cri-base.json").write_text(json.dumps(description))
    (target / "kind/version").write_text(f"v{KUBERNETES_VERSION}")
    (target / "kind/manifests").mkdir()
    (target / "kind/manifests/default-storage.yaml").write_text(_STORAGE)
    return target


def _place(source: Path, destination: Path, mode: int) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, destination)
    destination.chmod(mode)


def _enable() -> str:
    wants = "/etc/systemd/system/multi-user.target.wants"
    return "".join(f"ln -sf /etc/systemd/system/{unit}.service {wants}/{unit}.service\n" for unit in _UNITS)


def _go(*arguments: str) -> str:
    go = toolchain.ensure(["go"])["go"]
    return run([go, *arguments], folder=MODULES / KIND_MODULE)


@contextlib.contextmanager
def _container(image: str) -> Iterator[str]:
    """A container that does nothing, to be changed and committed; the signal is what ends systemd, and is committed with it."""
    options = ("--entrypoint", "sleep", "--security-opt", "seccomp=unconfined", "--stop-signal", "SIGRTMIN+3")
    container = docker("run", "--detach", *options, image, "infinity").strip().splitlines()[-1]
    try:
        yield container
    finally:
        docker("rm", "--force", "--volumes", container)
