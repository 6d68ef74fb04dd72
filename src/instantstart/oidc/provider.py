"""An OpenID Connect provider over the wire: discovery, the way there, and the code that is exchanged for claims.

Facts: OpenID Connect Core 1.0 (3.1), Discovery 1.0, RP-Initiated Logout 1.0; PKCE (RFC 7636), the issuer in the answer (RFC 9207).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2

from instantstart.base import problems
from instantstart.oidc.keys import Keys, check
from instantstart.oidc.registration import Registration, values_of

_CONNECT_SECONDS, _READ_SECONDS = 5.0, 10.0
_KEPT_SECONDS = 3600.0
_MOST_BYTES = 1024 * 1024


def new_secret() -> str:
    """What one sign-in is known by; only the browser that began it has it."""
    return secrets.token_urlsafe(32)


def derived(secret: str, what: str) -> str:
    """The state, nonce, verifier or proof of a sign-in: each follows from its secret, so none of them is stored anywhere."""
    return _base64url(hmac.digest(secret.encode(), what.encode(), "sha256"))


class Provider:
    """One provider. Synchronous; safe to share between threads. ``now`` in seconds."""

    def __init__(self, registration: Registration, now: Callable[[], float] = time.monotonic) -> None:
        self.registration = registration
        self._now = now
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._http: httpx2.Client | None = None
        self._document: tuple[float, Mapping[str, Any]] | None = None
        self._keys = Keys(lambda: self._json("GET", self._endpoint("jwks_uri")), now)

    def way_there(self, secret: str, redirect_uri: str) -> str:
        """Where the browser is sent to sign in. Raises Unreachable."""
        challenge = _base64url(hashlib.sha256(derived(secret, "verifier").encode()).digest())
        asked = {
            "response_type": "code", "client_id": self.registration.client_id, "redirect_uri": redirect_uri,
            "scope": self.registration.scopes, "state": derived(secret, "state"), "nonce": derived(secret, "nonce"),
            "code_challenge": challenge, "code_challenge_method": "S256",
        }  # fmt: skip
        return _with_query(self._endpoint("authorization_endpoint"), asked)

    def way_out(self, return_to: str) -> str | None:
        """Where the browser ends its session at the provider; None where it has no such page. Raises Unreachable."""
        if not self._discovered().get("end_session_endpoint"):
            return None
        asked = {"client_id": self.registration.client_id, "post_logout_redirect_uri": return_to}
        return _with_query(self._endpoint("end_session_endpoint"), asked)

    def claims(self, answer: Mapping[str, str], secret: str, redirect_uri: str) -> dict[str, Any]:
        """What the provider says of who came back with ``answer``. Raises Unauthenticated for an answer that is not to be believed."""
        self._check_answer(answer, secret)
        form = {
            "grant_type": "authorization_code", "code": answer["code"], "redirect_uri": redirect_uri,
            "code_verifier": derived(secret, "verifier"),
        }  # fmt: skip
        told = self._json("POST", self._endpoint("token_endpoint"), **self._as_client(form))
        claims = check(told.get("id_token"), self._keys, self.registration.issuer, self.registration.client_id, derived(secret, "nonce"))
        return {**self._more(claims, told.get("access_token")), **claims}

    def _check_answer(self, answer: Mapping[str, str], secret: str) -> None:
        if not hmac.compare_digest(answer.get("state", "").encode(), derived(secret, "state").encode()):
            raise problems.Unauthenticated("sign_in.state_wrong", "This answer belongs to another sign-in.", hint="Sign in again.")
        expected = self._discovered().get("authorization_response_iss_parameter_supported") is True
        if answer.get("iss", None if expected else self.registration.issuer) != self.registration.issuer:
            raise problems.Unauthenticated("sign_in.issuer_wrong", "Another provider answered than was asked.", hint="Sign in again.")
        if "error" in answer:
            raise problems.Unauthenticated(
                "sign_in.provider_refused",
                "The provider did not sign you in.",
                hint="Sign in again.",
                evidence={"error": answer["error"][:100]},
            )
        if not answer.get("code"):
            raise problems.Unauthenticated("sign_in.code_missing", "The provider's answer has no code.", hint="Sign in again.")

    def _as_client(self, form: dict[str, str]) -> dict[str, Any]:
        """The request that also says who we are: by basic authentication unless the provider takes the form only."""
        ours = self.registration
        if ours.client_secret is None:
            return {"data": {**form, "client_id": ours.client_id}}
        taken = self._discovered().get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if "client_secret_basic" not in taken and "client_secret_post" in taken:
            return {"data": {**form, "client_id": ours.client_id, "client_secret": ours.client_secret}}
        return {"data": form, "auth": (_form_encoded(ours.client_id), _form_encoded(ours.client_secret))}

    def _more(self, claims: Mapping[str, Any], access_token: Any) -> Mapping[str, Any]:
        """What only the provider's userinfo tells: roles or an e-mail address that the signed word leaves out."""
        ours = self.registration
        enough = any(True for _ in values_of(claims, ours.role_claim)) and (not ours.domains or "email" in claims)
        if enough or not isinstance(access_token, str) or not self._discovered().get("userinfo_endpoint"):
            return {}
        told = self._json("GET", self._endpoint("userinfo_endpoint"), headers={"Authorization": f"Bearer {access_token}"})
        return told if told.get("sub") == claims["sub"] else {}

    def _discovered(self) -> Mapping[str, Any]:
        with self._lock:
            if self._document is None or self._now() - self._document[0] > _KEPT_SECONDS:
                told = self._json("GET", self.registration.issuer.rstrip("/") + "/.well-known/openid-configuration")
                if told.get("issuer") != self.registration.issuer:
                    raise _unreachable("its discovery document names another issuer", {"issuer": str(told.get("issuer"))[:200]})
                self._document = (self._now(), told)
            return self._document[1]

    def _endpoint(self, name: str) -> str:
        """An address of the discovery document, encrypted unless the issuer itself is on the loopback."""
        address = str(self._discovered().get(name) or "")
        plain = urlsplit(self.registration.issuer).scheme == "http"
        if urlsplit(address).scheme not in (("https", "http") if plain else ("https",)):
            raise _unreachable(f"its discovery document has no usable {name}")
        return address

    def _client(self) -> httpx2.Client:
        with self._opening:
            if self._http is None:
                self._http = httpx2.Client(timeout=httpx2.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS))
            return self._http

    def _json(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        """The JSON object that an address answers. Raises Unreachable; Unauthenticated when the provider refuses a code."""
        try:
            with self._client().stream(method, url, **options) as answer:
                body = b""
                for piece in answer.iter_bytes():
                    body += piece
                    if len(body) > _MOST_BYTES:
                        raise _unreachable("its answer is too long")
            status, told = answer.status_code, _parsed(answer.status_code, body)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise _unreachable("it does not answer", {"error": type(error).__name__}) from error
        if status in (400, 401) and method == "POST":
            raise problems.Unauthenticated(
                "sign_in.code_refused", "The provider refused the code of this sign-in.", hint="Sign in again.",
                evidence={"error": str(told.get("error"))[:100]},
            )  # fmt: skip
        if status != 200:
            raise _unreachable(f"it answered {status}")
        return told


def _parsed(status: int, body: bytes) -> dict[str, Any]:
    import json

    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = None
    if isinstance(told, dict):
        return told
    if status == 200:
        raise _unreachable("its answer is no JSON object")
    return {}


def _unreachable(why: str, evidence: Mapping[str, Any] | None = None) -> problems.Unreachable:
    return problems.Unreachable(
        "sign_in.provider_unreachable",
        f"The identity provider cannot be used: {why}.",
        hint="Try again; or sign in with a token. Administrators: see INSTANTSTART_OIDC_ISSUER.",
        evidence=evidence,
    )


def _with_query(address: str, asked: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}"


def _form_encoded(text: str) -> str:
    return urlencode({"": text})[1:]


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
