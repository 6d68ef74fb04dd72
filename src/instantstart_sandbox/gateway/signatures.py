"""Signature Version 4, recomputed: of whole requests, and of the presigned URL inside an EKS token."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"
_SAFE = "-_.~"


@dataclass(frozen=True)
class Claim:
    """What a signature says of itself."""

    access_key: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str
    #: ``20261130T120000Z``
    timestamp: str

    @property
    def scope(self) -> str:
        """The credential scope without the key."""
        return f"{self.date}/{self.region}/{self.service}/aws4_request"

    def signed_at(self) -> float:
        """Seconds since the epoch (wall time of the client); ValueError when it cannot be read."""
        return dt.datetime.strptime(self.timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC).timestamp()


def claim_of_query(query: str) -> Claim | None:
    """The claim of a presigned URL's query; None when it is not a whole one."""
    fields = dict(parse_qsl(query, keep_blank_values=True))
    credential = fields.get("X-Amz-Credential", "").split("/")
    if fields.get("X-Amz-Algorithm") != _ALGORITHM or len(credential) != 5:
        return None
    headers = tuple(fields.get("X-Amz-SignedHeaders", "").split(";"))
    key, date, region, service, _ = credential
    return Claim(key, date, region, service, headers, fields.get("X-Amz-Signature", ""), fields.get("X-Amz-Date", ""))


def claim_of_header(authorization: str, timestamp: str) -> Claim | None:
    """The claim of an Authorization header; None when it is not a whole one."""
    if not authorization.startswith(_ALGORITHM):
        return None
    parts = dict(part.strip().split("=", 1) for part in authorization[len(_ALGORITHM) :].split(",") if "=" in part)
    credential = parts.get("Credential", "").split("/")
    if len(credential) != 5:
        return None
    key, date, region, service, _ = credential
    return Claim(key, date, region, service, tuple(parts.get("SignedHeaders", "").split(";")), parts.get("Signature", ""), timestamp)


@dataclass(frozen=True)
class Signed:
    """The parts of a request that a signature covers; ``path`` as it stands on the wire; header names in lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    payload_hash: str


def holds(claim: Claim, secret: str, signed: Signed) -> bool:
    """Whether the secret gives the claim's signature for this request."""
    if any(name not in signed.headers for name in claim.signed_headers):
        return False
    pairs = [(k, v) for k, v in parse_qsl(signed.query, keep_blank_values=True) if k != "X-Amz-Signature"]
    query = "&".join(f"{k}={v}" for k, v in sorted((quote(k, safe=_SAFE), quote(v, safe=_SAFE)) for k, v in pairs))
    headers = "".join(f"{name}:{' '.join(signed.headers[name].split())}\n" for name in claim.signed_headers)
    path = signed.path or "/"
    # S3 signs the path as it is sent; every other service encodes it once more
    path = quote(unquote(path), safe="/" + _SAFE) if claim.service == "s3" else quote(path, safe="/" + _SAFE)
    canonical = "\n".join((signed.method, path, query, headers, ";".join(claim.signed_headers), signed.payload_hash))
    text = "\n".join((_ALGORITHM, claim.timestamp, claim.scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{secret}".encode()
    for part in (claim.date, claim.region, claim.service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.compare_digest(hmac.digest(key, text.encode(), "sha256").hex(), claim.signature)


def presigned_get(url: str, headers: dict[str, str]) -> tuple[Claim, Signed] | None:
    """The claim of a presigned GET and what it covers, given the headers (lower case, without ``host``) that go with it."""
    parts = urlsplit(url)
    claim = claim_of_query(parts.query)
    if claim is None:
        return None
    empty = hashlib.sha256(b"").hexdigest()
    return claim, Signed("GET", parts.path or "/", parts.query, {"host": parts.netloc, **headers}, empty)
