"""The images that kubeadm asks for, each from the binary that was built here, under the name that kubeadm itself says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from e2e.offline.archive import Content, write_image
from e2e.offline.commands import OfflineError, run
from e2e.toolchain.catalogue import KUBERNETES_VERSION

_PROGRAMS = ("nft", "conntrack", "xtables-nft-multi")
_IPTABLES = ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore")
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_LOADER = "usr/lib64/ld-linux-x86-64.so.2"


def wanted(kubeadm: Path, containerd_config: str) -> dict[str, str]:
    """Give the reference of each image by the last part of its name; the pod's first process is the one that containerd names."""
    listed = run([kubeadm, "config", "images", "list", "--kubernetes-version", f"v{KUBERNETES_VERSION}"]).split()
    found = {reference.rpartition("/")[2].partition(":")[0]: reference for reference in listed if ":" in reference}
    pause = re.search(r'sandbox_image = "(.+)"', containerd_config)
    if pause is None:
        raise OfflineError("kind's containerd configuration names no image for the pods' first process")
    return found | {"pause": pause[1]}


def write_all(binaries: Mapping[str, Path], node_tree: Path, containerd_config: str, folder: Path) -> list[Path]:
    """Write the archives of all images to `folder`."""
    references = wanted(binaries["kubeadm"], containerd_config)
    contents = {
        name: Content(files={f"usr/local/bin/{name}": binaries[name]}, folders=("tmp",))
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    }
    contents["etcd"] = Content(files={"usr/local/bin/etcd": binaries["etcd"]}, folders=("tmp", "var/lib/etcd"))
    contents["coredns"] = Content(files={"coredns": binaries["coredns"]}, folders=("etc",), entrypoint=("/coredns",))
    contents["pause"] = Content(files={"pause": binaries["pause"]}, entrypoint=("/pause",))
    contents["kube-proxy"] = Content(tree=_proxy_tree(binaries["kube-proxy"], node_tree, folder / "kube-proxy"))
    paths = []
    for name, content in contents.items():
        path = folder / f"{name}.tar"
        write_image(path, references[name], content)
        paths.append(path)
    return paths


def _proxy_tree(binary: Path, node_tree: Path, target: Path) -> Path:
    """kube-proxy runs nft, iptables and conntrack: the node's own, with their libraries."""
    for folder in ("tmp", "run", "etc", "usr/local/bin", "usr/sbin", "usr/lib64", f"{_LIBRARIES}/xtables"):
        (target / folder).mkdir(parents=True)
    for name in ("lib", "lib64", "sbin"):
        (target / name).symlink_to(f"usr/{name}")
    for program in _PROGRAMS:
        shutil.copy2(node_tree / "usr/sbin" / program, target / "usr/sbin" / program)
        for library in re.findall(r"/\S*\.so\S*", run(["chroot", node_tree, "ldd", f"/usr/sbin/{program}"])):
            shutil.copy2((node_tree / library.lstrip("/")), target / _LIBRARIES / Path(library).name)
    for name in _IPTABLES:
        (target / "usr/sbin" / name).symlink_to("xtables-nft-multi")
    for extension in (node_tree / _LIBRARIES / "xtables").glob("*.so"):
        shutil.copy2(extension, target / _LIBRARIES / "xtables" / extension.name, follow_symlinks=False)
    shutil.copy2(node_tree / "lib64/ld-linux-x86-64.so.2", target / _LOADER)
    shutil.copy2(binary, target / "usr/local/bin/kube-proxy")
    (target / "usr/local/bin/kube-proxy").chmod(0o755)
    return target
