"""Command lines of etcd and the Kubernetes control plane for one machine without root.

Flags differ from a production cluster's only where that one needs several machines, container networking or durable disks. Authorization
is RBAC alone, so a right that the chart or the operator forgot fails here as it would there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.clusters.local.pki import KeyPair

Command = list[str | Path]

# NB: endpoints must not carry loopback addresses, so these controllers would only log errors; clients discover pods instead.
_CONTROLLERS_OFF = (
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "node-ipam-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller",
    "bootstrap-signer-controller",
    "token-cleaner-controller",
)

_COMPONENT_USERS = ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"]

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        {"level": "None", "nonResourceURLs": ["/readyz*", "/livez*", "/healthz*", "/version", "/openapi/*"]},
        {"level": "None", "users": _COMPONENT_USERS, "verbs": ["get", "list", "watch"]},
        {"level": "Metadata"},
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """Everything that the command lines need: binaries by name, ports, files."""

    binaries: Mapping[str, Path]
    state: Path
    etcd_port: int
    etcd_peer_port: int
    apiserver_port: int
    controller_manager_port: int
    scheduler_port: int
    ca_file: Path
    serving: KeyPair
    service_account_key: Path
    service_account_public: Path

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{self.apiserver_port}"

    @property
    def audit_log(self) -> Path:
        """The audit log, one JSON event per line, at level Metadata."""
        return self.state / "audit.log"

    def etcd(self) -> Command:
        """Etcd with one member; not durable against a power cut, which nobody needs here."""
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.etcd_peer_port}"
        return [
            self.binaries["etcd"],
            *("--name", "local", "--data-dir", self.state / "etcd", "--unsafe-no-fsync", "--log-level", "warn"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"local={peer}"),
        ]

    def apiserver(self) -> Command:
        """The API server; writes its audit policy as a side effect."""
        policy = self.state / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(AUDIT_POLICY, sort_keys=False))
        issuer = "https://kubernetes.default.svc.cluster.local"
        return [
            self.binaries["kube-apiserver"],
            "--bind-address=127.0.0.1",
            f"--secure-port={self.apiserver_port}",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # the kubernetes Service would get a loopback endpoint
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--authorization-mode=RBAC",
            "--anonymous-auth=false",
            f"--client-ca-file={self.ca_file}",
            f"--tls-cert-file={self.serving.certificate_file}",
            f"--tls-private-key-file={self.serving.key_file}",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--service-account-issuer={issuer}",
            f"--service-account-key-file={self.service_account_public}",
            f"--service-account-signing-key-file={self.service_account_key}",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=200",
            "--audit-log-maxbackup=2",
            "--shutdown-delay-duration=0s",
            "--profiling=false",
        ]

    def controller_manager(self, kubeconfig: Path) -> Command:
        """The controller manager with node lifecycle, garbage collection and disruption on."""
        controllers = ",".join(["*", *(f"-{name}" for name in _CONTROLLERS_OFF)])
        return [
            self.binaries["kube-controller-manager"],
            *self._client_flags(kubeconfig, self.controller_manager_port),
            f"--controllers={controllers}",
            f"--root-ca-file={self.ca_file}",
            f"--service-account-private-key-file={self.service_account_key}",
            "--use-service-account-credentials=true",
            "--node-monitor-period=2s",
            "--node-monitor-grace-period=40s",
            "--enable-hostpath-provisioner=true",  # claims of the class `standard` bind; the process node gives them a folder
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ]

    def scheduler(self, kubeconfig: Path) -> Command:
        """The scheduler with its default profile."""
        return [
            self.binaries["kube-scheduler"],
            *self._client_flags(kubeconfig, self.scheduler_port),
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ]

    def _client_flags(self, kubeconfig: Path, port: int) -> Command:
        return [
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.serving.certificate_file}",
            f"--tls-private-key-file={self.serving.key_file}",
            "--leader-elect=false",
            "--profiling=false",
        ]
