"""A certificate authority and a server certificate for each cluster, kept on disk so that a restart changes nothing."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_YEARS = 10


@dataclass(frozen=True)
class Certificates:
    """Where the PEM files of one cluster lie."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The CA's certificate."""
        return self.folder / "ca.crt"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.folder / "server.crt"

    @property
    def key(self) -> Path:
        """The server's private key."""
        return self.folder / "server.key"

    def context(self) -> ssl.SSLContext:
        """A TLS context for the listener."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def ensure(folder: Path, name: str) -> Certificates:
    """The cluster's certificates; made at the first call."""
    files = Certificates(folder)
    if files.certificate.exists() and files.key.exists() and files.authority.exists():
        return files
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key, name)
    server = _server(authority, authority_key, server_key)
    _write_private(files.key, server_key)
    files.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    return files


def _write_private(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(pem)


def _builder(subject: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=365 * _YEARS))
    )


def _authority(key: ec.EllipticCurvePrivateKey, name: str) -> x509.Certificate:
    subject = f"kubernetes {name}"[:64]
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=True, data_encipherment=False, key_agreement=False,
        key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = _builder(subject, issuer, key.public_key()).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return builder.sign(key, hashes.SHA256())


def _server(authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    names = [x509.DNSName(n) for n in ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")]
    loopback = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
    builder = _builder("kube-apiserver", authority.subject, key.public_key())
    builder = builder.add_extension(x509.SubjectAlternativeName([*names, loopback]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    return builder.sign(authority_key, hashes.SHA256())
