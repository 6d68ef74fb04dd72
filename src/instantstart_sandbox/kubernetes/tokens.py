"""ServiceAccount tokens: signed JWTs with audience and expiry, their keys, and the issuer's documents (for IRSA and pod identity)."""

from __future__ import annotations

import base64
import functools
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from instantstart_sandbox.world.seams import Identity

Object = dict[str, Any]
AUDIENCE: Final = "https://kubernetes.default.svc"
_SHORTEST, _LONGEST = 600, 24 * 3600


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class ServiceAccountTokens:
    """Issues and checks tokens with a key kept in ``folder``. ``now`` is virtual seconds since the epoch."""

    def __init__(self, folder: Path, issuer: str, now: Callable[[], float]) -> None:
        self.issuer, self.now = issuer, now
        self._folder = folder

    @functools.cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        """Made when it is first needed: that takes a fifth of a second."""
        return _load_key(self._folder / "sa.key")

    @property
    def _n(self) -> bytes:
        numbers = self._key.public_key().public_numbers()
        return numbers.n.to_bytes((numbers.n.bit_length() + 7) // 8, "big")

    @property
    def _id(self) -> str:
        return _encoded(hashes_of(self._n))

    def issue(self, account: Object, spec: Object) -> tuple[str, int]:
        """(token, expiry in seconds since the epoch) for a TokenRequest; EKS allows 10 minutes to 24 hours."""
        metadata, issued = account["metadata"], int(self.now())
        seconds = min(max(int(spec.get("expirationSeconds", 3600)), _SHORTEST), _LONGEST)
        about: Object = {"namespace": metadata["namespace"], "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]}}
        bound = spec.get("boundObjectRef")
        if bound and bound.get("kind") == "Pod":
            about["pod"] = {"name": bound.get("name", ""), "uid": bound.get("uid", "")}
        claims = {
            "aud": spec.get("audiences") or [AUDIENCE],
            "exp": issued + seconds,
            "iat": issued,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": about,
            "nbf": issued,
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        head = {"alg": "RS256", "kid": self._id}
        signed = f"{_encoded(orjson.dumps(head))}.{_encoded(orjson.dumps(claims))}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}", issued + seconds

    def claims(self, token: str) -> Object | None:
        """The claims of a token that we signed and that has not expired, or None."""
        parts = token.split(".")
        if len(parts) != 3:
            return None
        try:
            signed, signature = f"{parts[0]}.{parts[1]}".encode(), _decoded(parts[2])
            self._key.public_key().verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
            claims: Object = orjson.loads(_decoded(parts[1]))
        except (InvalidSignature, ValueError):
            return None
        return claims if claims["exp"] > self.now() else None

    def authenticate(self, token: str, audience: str = AUDIENCE) -> Identity | None:
        """The service account behind a token for this API server, or None."""
        claims = self.claims(token)
        if claims is None or audience not in claims["aud"]:
            return None
        namespace = claims["kubernetes.io"]["namespace"]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return Identity(arn="", username=claims["sub"], groups=groups)

    def keys(self) -> Object:
        """The JSON Web Key Set of the issuer."""
        exponent = _encoded(self._key.public_key().public_numbers().e.to_bytes(3, "big"))
        key = {"use": "sig", "kty": "RSA", "kid": self._id, "alg": "RS256", "n": _encoded(self._n), "e": exponent}
        return {"keys": [key]}

    def discovery(self) -> Object:
        """The issuer's OpenID configuration."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }


def hashes_of(data: bytes) -> bytes:
    """SHA-256, for the key's id."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(data)
    return digest.finalize()


def _load_key(path: Path) -> rsa.RSAPrivateKey:
    if path.exists():
        loaded = serialization.load_pem_private_key(path.read_bytes(), None)
        if isinstance(loaded, rsa.RSAPrivateKey):
            return loaded
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(pem)
    return key
