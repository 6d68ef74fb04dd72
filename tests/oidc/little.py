"""A little OpenID Connect provider on the loopback, with real keys and signatures (by another library than the product's).

It does what a good provider does. A test makes it a bad one by ``twist`` (claims), ``forge`` (the finished token) or ``answer``.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

CLIENT_ID, CLIENT_SECRET = "instantstart", "s3cret of the client"
Claims = dict[str, Any]


class Little:
    """The provider's state. ``person`` is who sits at the browser."""

    def __init__(self) -> None:
        self.issuer = ""
        self._number = 0
        self.reset()

    def reset(self) -> None:
        """As new, with another person."""
        self._number += 1
        self.person: Claims = {"sub": f"person-{self._number}", "email": "ada@example.com", "email_verified": True, "groups": ["ml"]}
        self.more: Claims = {}
        self.twist: Callable[[Claims], Claims] = lambda claims: claims
        self.forge: Callable[[str], str] = lambda token: token
        self.answer: Callable[[dict[str, str]], dict[str, str]] = lambda query: query
        self.asked: list[str] = []
        self.departures: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self.keys: list[Any] = []
        self.rotate()

    def rotate(self, kind: str = "EC") -> None:
        """A new key signs; the old one is not published any more."""
        self._number += 1
        told: Any = {"kid": f"key-{self._number}", "use": "sig"}
        self.algorithm = "RS256" if kind == "RSA" else "ES256"
        self.keys = [RSAKey.generate_key(2048, told) if kind == "RSA" else ECKey.generate_key("P-256", told)]

    def discovery(self) -> Claims:
        """What it says of itself."""
        paths = {"authorization": "authorize", "token": "token", "userinfo": "userinfo", "end_session": "leave"}
        told: Claims = {f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in paths.items()}
        return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", "authorization_response_iss_parameter_supported": True, **told}

    def authorize(self, query: dict[str, str]) -> str:
        """The person has signed in: where the browser goes now."""
        self.departures.append(query)
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        back = self.answer({"code": code, "state": query["state"], "iss": self.issuer, "session_state": "not asked for"})
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, Claims]:
        """The code against a signed word; a code works once."""
        query = self._codes.pop(form.get("code", ""), None)
        raw = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        if [unquote_plus(each) for each in raw.split(":")] != [CLIENT_ID, CLIENT_SECRET]:
            return 401, {"error": "invalid_client"}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        if query is None or query["code_challenge"] != challenge or query["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": query["nonce"], **self.person}
        return 200, {"access_token": "at", "token_type": "Bearer", "id_token": self.forge(self.sign(self.twist(claims)))}

    def sign(self, claims: Claims) -> str:
        """A token with today's key."""
        header = {"alg": self.algorithm, "kid": self.keys[0].kid}
        return jwt.encode(header, claims, self.keys[0], algorithms=[header["alg"]])

    def respond(self, method: str, path: str, query: dict[str, str], headers: Any, body: bytes) -> tuple[int, Any]:
        """Status and JSON, or 303 and an address."""
        self.asked.append(path)
        if path == "/.well-known/openid-configuration":
            return 200, self.discovery()
        if path == "/keys":
            return 200, KeySet(self.keys).as_dict(private=False)
        if path == "/authorize":
            return 303, self.authorize(query)
        if path == "/userinfo":
            return 200, {"sub": self.person["sub"], **self.more}
        if path == "/token" and method == "POST":
            form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            return self.token(form, headers.get("Authorization", ""))
        return 404, {}


def _handler(little: Little) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, told = little.respond(self.command, parts.path, query, self.headers, body)
            raw = b"" if status == 303 else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            if status == 303:
                self.send_header("Location", told)
            self.end_headers()
            self.wfile.write(raw)

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    return Handler


@contextlib.contextmanager
def listening() -> Iterator[Little]:
    """A provider that listens on a free port."""
    little = Little()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(little)) as server:
        little.issuer = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield little
        server.shutdown()
