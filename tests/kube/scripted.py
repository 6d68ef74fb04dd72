"""A scripted HTTPS API server: each test says what is answered, byte by byte where that matters."""

from __future__ import annotations

import datetime as dt
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from instantstart.kube.cluster_ref import ClusterRef

TEAR = object()


@dataclass(frozen=True)
class Asked:
    """One request as the server saw it."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def token(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")


@dataclass
class Reply:
    """What to answer: ``body`` whole, or ``lines`` one by one as a stream.

    TEAR cuts the connection, an Event is waited for, a number is slept, bytes are sent as they are, without the end of a line.
    """

    status: int = 200
    body: Any = None
    lines: Sequence[Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Wire:
    """The running server; ``answer`` may be replaced at any time."""

    ref: ClusterRef
    answer: Callable[[Asked], Reply] = lambda _: Reply(404, b"404 page not found")
    asked: list[Asked] = field(default_factory=list)


def status(code: int, reason: str, message: str, **details: Any) -> Reply:
    """A Status answer."""
    return Reply(
        code,
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message, "details": details},
    )


def _certificate(folder: Path) -> tuple[Path, str]:
    """A key with its own certificate for 127.0.0.1, and that certificate as the authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubernetes")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "server.pem"
    path.write_bytes(secret + pem)
    return path, pem.decode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wire: Wire

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        return

    def handle_one(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        asked = Asked(self.command, parts.path, dict(parse_qsl(parts.query)), {k.lower(): v for k, v in self.headers.items()}, body)
        self.wire.asked.append(asked)
        reply = self.wire.answer(asked)
        if reply.body is TEAR:
            self._tear()
        elif reply.lines is None:
            self._whole(reply)
        else:
            self._stream(reply)

    do_GET = do_POST = do_PATCH = do_DELETE = handle_one  # noqa: N815 - names of the protocol

    def _whole(self, reply: Reply) -> None:
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in ({"Content-Type": "application/json"} | reply.headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in reply.lines or ():
            if line is TEAR:
                return self._tear()
            if isinstance(line, threading.Event):
                line.wait(30)
                continue
            if isinstance(line, float):
                time.sleep(line)
                continue
            content = line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode() + b"\n"
            self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _tear(self) -> None:
        self.close_connection = True
        self.connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        return


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    """A server of its own for the test."""
    path, ca = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)

    class Handler(_Handler):
        pass

    server = _Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    arn = "arn:aws-us-gov:eks:us-gov-west-1:111122223333:cluster/demo"
    Handler.wire = Wire(ClusterRef(arn, "demo", "us-gov-west-1", f"https://127.0.0.1:{server.server_address[1]}", ca))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield Handler.wire
    server.shutdown()
    server.server_close()
