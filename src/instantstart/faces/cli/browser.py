"""Signing in with the browser (RFC 8252): the server leads it to the identity provider, and it comes back to a loopback port of ours.

What comes back is a one-time code that only the secret opens with which this began (PKCE's idea): whoever sees the address has nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import http.server
import secrets
import time
import webbrowser
from collections.abc import Mapping
from urllib.parse import parse_qs, urlencode, urlsplit

from instantstart.base import problems

WAIT_SECONDS = 300.0
_PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>InstantStart</title></head>'
    "<body><h1>{}</h1><p>You may close this page and go back to the terminal.</p></body></html>"
)


class Arrival:
    """A loopback port on which one browser is waited for. Use as a context."""

    def __init__(self) -> None:
        self.secret = secrets.token_urlsafe(32)
        self.state = secrets.token_urlsafe(16)
        self.told: Mapping[str, str] | None = None
        self._server = http.server.HTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.timeout = 1.0

    def __enter__(self) -> Arrival:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def address(self, server: str) -> str:
        """Where the browser begins."""
        proof = hashlib.sha256(self.secret.encode()).hexdigest()
        asked = {"port": self._server.server_port, "proof": proof, "state": self.state}
        return f"{server}/api/v1/sign-in/oidc?{urlencode(asked)}"

    def open(self, address: str) -> bool:
        """Show the address in a browser of this machine; False when there is none."""
        try:
            return webbrowser.open(address)
        except webbrowser.Error:
            return False

    def code(self, wait_seconds: float = WAIT_SECONDS) -> str:
        """The one-time code, once the browser has come back. Raises Unauthenticated when it brings a refusal, or nobody comes."""
        until = time.monotonic() + wait_seconds
        while self.told is None and time.monotonic() < until:
            self._server.handle_request()
        if self.told is None:
            raise problems.Unauthenticated("sign_in.nobody_came", "No browser came back in time.", hint="Try again, or give a token.")
        if "code" not in self.told:
            code = self.told.get("error", "sign_in.refused")
            raise problems.Unauthenticated(
                code, "The sign-in was refused.", hint="Open the console's sign-in page to see why, or give a token."
            )
        return self.told["code"]


def _handler_of(arrival: Arrival) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            ours = hmac.compare_digest(asked.get("state", "").encode(), arrival.state.encode())
            if ours and arrival.told is None:
                arrival.told = asked
            good = ours and "code" in asked
            body = _PAGE.format("You are signed in" if good else "This is no sign-in of ours").encode()
            self.send_response(200 if good else 400)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: the address holds the code."""

    return Handler
