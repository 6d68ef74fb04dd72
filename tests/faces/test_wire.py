"""Bounds of a connection: a head without end, requests that dawdle, and what passes as ever."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from instantstart.faces.api import wire

PROBLEM = b"Content-Type: application/problem+json"


def said(served: Any, *pieces: bytes) -> bytes:
    """All that the server says to these bytes until it hangs up."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as line:
        try:
            for piece in pieces:
                line.sendall(piece)
            heard = b""
            while piece := line.recv(65536):
                heard += piece
        except (BrokenPipeError, ConnectionResetError):  # it does not read to the end what it has refused
            return heard if "heard" in locals() else b""
    return heard


def test_a_head_without_end_is_not_kept(served: Any) -> None:
    told = said(served, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", b"a" * (wire.MAX_HEAD_BYTES + 1))
    assert told.startswith(b"HTTP/1.1 431 ")
    head, _, body = told.partition(b"\r\n\r\n")
    assert PROBLEM in head
    assert json.loads(body)["code"] == "request.not_received"


def test_many_small_headers_are_counted_together(served: Any) -> None:
    told = said(served, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", *(f"X-{n}: {'a' * 1000}\r\n".encode() for n in range(100)))
    assert told == b"" or told.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{",
    ],
)
def test_who_dawdles_is_hung_up_on(served: Any, begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(wire, "BODY_SECONDS", 0.2)
    told = said(served, begun) if begun else said(served)
    assert told == b"" or told.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 400 "))


def test_an_address_without_end_is_told_as_a_problem(served: Any) -> None:
    told = said(served, b"GET /api/v1/zones?region=" + b"%F0" * 22_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert told == b"" or PROBLEM in told


def test_two_requests_on_one_line_and_a_large_body_pass(served: Any) -> None:
    body = b'{"token": "' + b"a" * 200_000 + b'"}'
    first = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    posted = b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
    told = said(served, first, posted + b"Content-Length: %d\r\n\r\n" % len(body), body)
    assert told.count(b"HTTP/1.1 200 ") == 1
    assert told.count(b"HTTP/1.1 422 ") == 1


@pytest.mark.parametrize(
    "odd",
    [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",  # smuggling
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    ],
)
def test_bytes_that_are_no_request_are_refused(served: Any, odd: bytes) -> None:
    told = said(served, odd)
    assert told.startswith(b"HTTP/1.1 400 ")
    assert PROBLEM in told
