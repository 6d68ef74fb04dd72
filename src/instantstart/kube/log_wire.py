"""One followed log on the wire: a socket that is read when there is something, without a thread or a task that waits for it.

Whoever follows two hundred containers must not wake up for each line. The request is sent by ``dial`` (in a thread: names, TLS); from
then on ``drain`` takes what has come, in one go for many lines. The API server answers with its head only when the container says its
first word, so the head is read there, too.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

import httpx2

from instantstart.base import problems
from instantstart.kube import errors
from instantstart.kube.connection import CONNECT_SECONDS, Connection

_READ = 64 * 1024
#: of one log at one look: the others want to be read, too
MOST_AT_ONCE = 128 * 1024
_LONGEST_HEAD = 64 * 1024
_LONGEST_REFUSAL = 64 * 1024
#: seconds of silence after which the system asks whether the other side is there, between its questions, and how many of them
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))


class UnauthorizedError(Exception):
    """The token was not taken; another may be."""


class Chunks:
    """Takes the framing of chunked transfer off."""

    def __init__(self) -> None:
        self._held, self._left = b"", 0
        self.over = False

    def feed(self, data: bytes) -> bytes:
        """The content in ``data``. Raises ValueError for what is no such framing."""
        if not self._held and not self._left:  # mostly it is one whole chunk
            end = data.find(b"\r\n")
            if 0 < end <= 8 and len(data) == end + 4 + (size := int(data[:end], 16)) and size:
                return data[end + 2 : -2]
        if self._held:
            data, self._held = self._held + data, b""
        parts, at = [], 0
        while at < len(data) and not self.over:
            if self._left > 2:
                part = data[at : at + self._left - 2]
                parts.append(part)
                at, self._left = at + len(part), self._left - len(part)
                continue
            if self._left:  # the line end behind a chunk
                step = min(self._left, len(data) - at)
                at, self._left = at + step, self._left - step
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                self._held = data[at:]
                break
            size = int(data[at:end].split(b";")[0], 16)
            at, self._left, self.over = end + 2, size + 2, size == 0
        return b"".join(parts)


@dataclass
class _Head:
    status: int
    headers: Mapping[str, str]
    chunks: Chunks | None
    length: int | None


class LogStream:
    """An answer that is being read. ``fileno`` is for a selector."""

    def __init__(self, sock: ssl.SSLSocket, call: errors.Call, token: str) -> None:
        self._socket, self._call, self.token = sock, call, token
        self._raw = b""
        self._head: _Head | None = None
        self._refusal = b""
        self.closed = False
        #: there may be more at once, which a selector does not see
        self.more = False

    def fileno(self) -> int:
        """Of the socket."""
        return self._socket.fileno()

    @property
    def complete(self) -> bool:
        """Whether the answer came to its own end, and was not torn."""
        head = self._head
        if head is None or not self.closed:
            return False
        return head.chunks.over if head.chunks is not None else head.length is None or head.length <= 0

    def drain(self) -> bytes:
        """What has come. Sets ``closed`` at the end of the answer or when it tears. Raises the Problem of a refusal, UnauthorizedError."""
        got, size = [], 0
        self.more = False
        try:
            while size < MOST_AT_ONCE:
                data = self._socket.recv(_READ)
                if not data:
                    self.closed = True
                    break
                got.append(data)
                size += len(data)
            else:
                self.more = True
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            self.closed = True
        try:
            return self._taken(b"".join(got))
        except ValueError:
            self.closed = True
            return b""

    def close(self) -> None:
        """Let go of the socket."""
        self.closed = True
        self._socket.close()

    def _taken(self, data: bytes) -> bytes:
        if self._head is None:
            self._raw += data
            end = self._raw.find(b"\r\n\r\n")
            if end < 0:
                self.closed = self.closed or len(self._raw) > _LONGEST_HEAD
                return b""
            self._head = _read_head(self._raw[: end + 4])
            data, self._raw = self._raw[end + 4 :], b""
            self.closed = self.closed or self._head.status == http.HTTPStatus.NO_CONTENT
        content = self._content(data, self._head)
        if self._head.status >= 400:
            return self._refused(content, self._head)
        return content

    def _content(self, data: bytes, head: _Head) -> bytes:
        if head.chunks is not None:
            content = head.chunks.feed(data)
            self.closed = self.closed or head.chunks.over
            return content
        if head.length is not None:
            head.length -= len(data)
            self.closed = self.closed or head.length <= 0
        return data

    def _refused(self, content: bytes, head: _Head) -> bytes:
        if head.status == http.HTTPStatus.UNAUTHORIZED:
            raise UnauthorizedError
        self._refusal += content
        if self.closed or len(self._refusal) > _LONGEST_REFUSAL:
            self.closed = True
            raise errors.from_response(head.status, self._refusal, head.headers, self._call)
        return b""


def _read_head(raw: bytes) -> _Head:
    """Raises ValueError for what is no answer of HTTP."""
    first, _, rest = raw.partition(b"\r\n")
    words = first.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1."):
        raise ValueError("no answer of HTTP")
    try:
        headers = {name.lower(): value for name, value in http.client.parse_headers(io.BytesIO(rest)).items()}
    except http.client.HTTPException as error:
        raise ValueError(str(error)) from error
    chunked = headers.get("transfer-encoding", "").lower() == "chunked"
    length = headers.get("content-length", "")
    return _Head(int(words[1]), headers, Chunks() if chunked else None, int(length) if length.isdigit() and not chunked else None)


def dial(connection: Connection, path: str, params: Mapping[str, str], rejected: str | None = None) -> LogStream:
    """Ask for a log and answer its stream. Takes a moment: for a thread. Raises Unreachable."""
    call = connection.call("GET", path)
    try:
        connection.check_name()
        asking = _connection_to(connection)
        token = connection.token(rejected)
        asking.connect()
        sock = asking.sock
        headers = {"Authorization": f"Bearer {token}", "Accept": "*/*", "Accept-Encoding": "identity"}
        asking.request("GET", f"{connection.base_path}{path}?{urlencode(params)}", headers=headers)
    except httpx2.RequestError as error:
        raise errors.from_transport(error, call) from error
    except (OSError, http.client.HTTPException) as error:
        raise errors.from_transport(httpx2.ConnectError(str(error)), call) from error
    if not isinstance(sock, ssl.SSLSocket):
        raise problems.Broken("kubernetes.not_tls", f"{call.ref.endpoint} is not an address of TLS.")
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setblocking(False)
    return LogStream(sock, call, token)


def _connection_to(connection: Connection) -> http.client.HTTPSConnection:
    """Straight, or through the proxy that the environment names, as the other requests go."""
    where = urlsplit(connection.ref.endpoint)
    host, port = str(where.hostname), where.port or 443
    proxy = urllib.request.getproxies().get("https")
    if not proxy or urllib.request.proxy_bypass(host):
        return http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=connection.tls)
    through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    asking = http.client.HTTPSConnection(str(through.hostname), through.port or 3128, timeout=CONNECT_SECONDS, context=connection.tls)
    asking.set_tunnel(host, port)
    return asking
