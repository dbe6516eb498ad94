"""The local cluster's own certificate authority, certificates and service-account key.

Every cluster gets a fresh one in its state folder, so that nothing is trusted beyond the life of that cluster.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=30)
_SKEW = datetime.timedelta(minutes=5)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate and its key as PEM files."""

    certificate_file: Path
    key_file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """The cluster's certificate authority; it signs for one server and for clients."""

    folder: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Make a new authority in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("mtpilot local cluster")
        usage = _key_usage(authority=True)
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = _builder(name, name, key.public_key()).add_extension(constraints, critical=True).add_extension(usage, critical=True)
        certificate = builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())
        _write_certificate(folder / "ca.crt", certificate)
        return cls(folder=folder, certificate=certificate, key=key)

    @property
    def certificate_file(self) -> Path:
        """The authority's certificate, to be trusted by clients."""
        return self.folder / "ca.crt"

    def server(self, name: str, *, dns_names: Sequence[str], addresses: Sequence[str]) -> KeyPair:
        """Sign a server certificate for these names and IP addresses."""
        names: list[x509.GeneralName] = [x509.DNSName(dns) for dns in dns_names]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        extension = x509.SubjectAlternativeName(names)
        return self._issue(name, _name(name), ExtendedKeyUsageOID.SERVER_AUTH, extension)

    def client(self, user: str, *, group: str | None = None) -> KeyPair:
        """Sign a client certificate for a Kubernetes user, optionally in one group."""
        return self._issue(user.replace(":", "-"), _name(user, group), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(self, file: str, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self.certificate.subject, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(_key_usage(authority=False), critical=True)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(authority, critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        pair = KeyPair(certificate_file=self.folder / f"{file}.crt", key_file=self.folder / f"{file}.key")
        _write_certificate(pair.certificate_file, builder.sign(self.key, hashes.SHA256()))
        _write_key(pair.key_file, key)
        return pair


def service_account_key(folder: Path) -> tuple[Path, Path]:
    """Make the RSA pair that signs service-account tokens; gives (private, public) PEM files."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = folder / "service-account.key", folder / "service-account.pub"
    _write_key(private, key)
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def _name(common: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(now - _SKEW).not_valid_after(now + _LIFETIME)


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_key(path: Path, key: PrivateKey) -> None:
    path.touch(mode=0o600)
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.TraditionalOpenSSL, plain))
