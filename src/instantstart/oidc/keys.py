"""The provider's keys, and the checks of a signed word of its (OpenID Connect Core 1.0, 3.1.3.7)."""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from instantstart.base import problems

if TYPE_CHECKING:
    import jwt

#: signatures by a private key only: with a shared secret (HS...) or none, whoever knows our settings could sign
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY_SECONDS = 60.0
_KEPT_SECONDS = 3600.0
_FAMILIES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
#: how often a minute unknown keys may make us ask again: after a rotation once is enough
_ASKED_ANEW = 5


class Keys:
    """The provider's public keys, read when needed and again when one is unknown. ``read`` answers the JSON Web Key Set."""

    def __init__(self, read: Callable[[], Mapping[str, Any]], now: Callable[[], float] = time.monotonic) -> None:
        self._read, self._now = read, now
        self._lock = threading.Lock()
        self._known: tuple[Mapping[str, Any], ...] = ()
        self._read_at: float | None = None
        self._anew: list[float] = []

    def find(self, kid: str | None, algorithm: str) -> list[jwt.PyJWK]:
        """The keys that may have signed; none when the provider has no such key."""
        with self._lock:
            if self._read_at is None or self._now() - self._read_at > _KEPT_SECONDS:
                self._load()
            found = self._matching(kid, algorithm)
            if not found and self._may_ask_anew():
                self._load()
                found = self._matching(kid, algorithm)
        return found

    def _load(self) -> None:
        keys = self._read().get("keys")
        self._known = tuple(each for each in keys if isinstance(each, Mapping)) if isinstance(keys, list) else ()
        self._read_at = self._now()

    def _may_ask_anew(self) -> bool:
        self._anew = [at for at in self._anew if self._now() - at < 60.0]
        if len(self._anew) >= _ASKED_ANEW:
            return False
        self._anew.append(self._now())
        return True

    def _matching(self, kid: str | None, algorithm: str) -> list[jwt.PyJWK]:
        import jwt

        found = []
        for key in self._known:
            fits = key.get("kty") == _FAMILIES[algorithm[:2]] and key.get("use", "sig") == "sig" and key.get("alg", algorithm) == algorithm
            if fits and (kid is None or key.get("kid") == kid):
                try:
                    found.append(jwt.PyJWK(dict(key), algorithm=algorithm))
                except (jwt.PyJWTError, ValueError, TypeError):
                    continue  # a key of a kind we do not know is nobody's
        return found


def check(token: Any, keys: Keys, issuer: str, client_id: str, nonce: str) -> dict[str, Any]:
    """The claims of an id_token. Raises Unauthenticated unless signature, iss, aud, azp, exp, iat, nonce and sub are as they must be."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise _refused("it is not signed by a key of the provider")
        for key in keys.find(kid, algorithm):
            claims = _claims(token, key, issuer, client_id)
            if claims is not None:
                return _for_us(claims, client_id, nonce)
    except jwt.ExpiredSignatureError as error:
        raise _refused("it has expired") from error
    except jwt.InvalidAudienceError as error:
        raise _refused("it is meant for another client") from error
    except jwt.InvalidIssuerError as error:
        raise _refused("another issuer gave it") from error
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise _refused("it is not well made") from error
    raise _refused("no key of the provider signed it")


def _claims(token: str, key: jwt.PyJWK, issuer: str, client_id: str) -> dict[str, Any] | None:
    import jwt

    try:
        return jwt.decode(
            token, key, algorithms=list(ALGORITHMS), audience=client_id, issuer=issuer, leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iat", "sub", "aud", "iss"], "verify_iat": True},
        )  # fmt: skip
    except jwt.InvalidSignatureError:
        return None


def _for_us(claims: dict[str, Any], client_id: str, nonce: str) -> dict[str, Any]:
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if (several or "azp" in claims) and claims.get("azp") != client_id:
        raise _refused("it is meant for another client")
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise _refused("it belongs to another sign-in")
    if not isinstance(claims["sub"], str) or not claims["sub"] or len(claims["sub"]) > 255:
        raise _refused("it names nobody")
    return claims


def _refused(why: str) -> problems.Problem:
    return problems.Unauthenticated("sign_in.word_refused", f"The provider's word is not taken: {why}.", hint="Sign in again.")
