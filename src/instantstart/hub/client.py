"""What a model or dataset repository holds, asked before anything is downloaded.

Facts: the Hub's HTTP API (huggingface.co/docs/hub/api): ``/api/models/ID/revision/REV?blobs=true`` lists files with sizes and, for
large ones, their sha256; files are at ``/ID/resolve/REV/PATH``. Errors carry ``X-Error-Code``. A repository that is missing and one that
is private look alike without a token (401); the list of a gated one is public, its files are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

import httpx2

from instantstart.base import problems

Kind = Literal["model", "dataset"]
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 20.0
#: how often a renamed repository is followed
_MOST_MOVES = 5
_PLURAL = {"model": "models", "dataset": "datasets"}


@dataclass(frozen=True)
class HubFile:
    """One file: its path in the repository, its size in bytes, and the sha256 of large ones."""

    path: str
    size: int
    sha256: str | None


@dataclass(frozen=True)
class Repository:
    """A repository at one commit. ``gated``: its files need a token whose owner accepted the licence."""

    id: str
    kind: Kind
    commit: str
    gated: bool
    files: tuple[HubFile, ...]


@dataclass(frozen=True)
class Wanted:
    """Which repository; ``revision`` is a branch, a tag or a commit."""

    id: str
    kind: Kind = "model"
    revision: str = "main"


class Hub:
    """The hub at ``url``, which comes from the settings and never from a request."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def inspect(self, wanted: Wanted, token: str | None = None) -> Repository:
        """The repository at the commit its revision names now.

        Raises NotFound ``hub.repository_not_found`` or ``hub.revision_not_found``, Denied ``hub.token_needed``, ``hub.token_refused`` or
        ``hub.licence_not_accepted``, Busy when asked too often, Unreachable.
        """
        path = f"/api/{_PLURAL[wanted.kind]}/{quote(wanted.id)}/revision/{quote(wanted.revision, safe='')}"
        told = self._json(path + "?blobs=true", wanted, token)
        files = tuple(_file(each) for each in told.get("siblings") or () if isinstance(each, dict) and "rfilename" in each)
        found = Repository(str(told.get("id", wanted.id)), wanted.kind, str(told["sha"]), bool(told.get("gated")), files)
        if found.gated and files:
            self._check_access(found, token)
        return found

    def _check_access(self, found: Repository, token: str | None) -> None:
        """The list of a gated repository is public: whether its files may be had, one of them tells."""
        prefix = "" if found.kind == "model" else "datasets/"
        path = f"/{prefix}{quote(found.id)}/resolve/{found.commit}/{quote(found.files[0].path)}"
        answer = self._ask("HEAD", path, token)
        if answer.status_code >= 400:
            raise _refusal(answer, Wanted(found.id, found.kind, found.commit), token)

    def _json(self, path: str, wanted: Wanted, token: str | None) -> dict[str, Any]:
        answer = self._ask("GET", path, token)
        if answer.status_code >= 400:
            raise _refusal(answer, wanted, token)
        told = _object(answer)
        if not isinstance(told.get("sha"), str):
            what = answer.headers.get("content-type") or "no type"
            raise problems.Unreachable(
                "hub.not_a_hub",
                f"{self.url} answered with {what}, status {answer.status_code}, not with a repository: another site stands there.",
                hint="Look at INSTANTSTART_HUB_URL and at what stands between.",
            )
        return told

    def _ask(self, method: str, path: str, token: str | None) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = httpx2.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
        try:
            with httpx2.Client(timeout=timeout, headers=headers) as client:
                answer = client.request(method, self.url + path)
                for _ in range(_MOST_MOVES):
                    if method == "HEAD" or answer.next_request is None:
                        break
                    self._check_stays(answer.next_request.url)
                    answer = client.send(answer.next_request)
                return answer
        except httpx2.RequestError as error:
            raise problems.Unreachable(
                "hub.unreachable",
                f"The model hub at {self.url} cannot be reached: {error}",
                hint="Look at INSTANTSTART_HUB_URL and at the way out of this network.",
                evidence={"service": "hub", "url": self.url},
            ) from error

    def _check_stays(self, there: httpx2.URL) -> None:
        """A repository that was renamed is elsewhere on the hub, and nowhere else: no word of the hub leads us into another network."""
        here = httpx2.URL(self.url)
        if (there.scheme, there.host, there.port) != (here.scheme, here.host, here.port):
            raise problems.Unreachable(
                "hub.leads_elsewhere",
                f"The model hub at {self.url} sends to another server, {there.scheme}://{there.netloc.decode()}; it is not followed.",
                hint="If the hub has moved, set INSTANTSTART_HUB_URL to where it is.",
            )


def _object(answer: httpx2.Response) -> dict[str, Any]:
    """The JSON object of an answer; an empty one where it is none."""
    try:
        told = answer.json() if "json" in answer.headers.get("content-type", "") else None
    except (ValueError, RecursionError):
        told = None
    return told if isinstance(told, dict) else {}


def _file(told: dict[str, Any]) -> HubFile:
    large = told.get("lfs") or {}
    return HubFile(str(told["rfilename"]), int(large.get("size") or told.get("size") or 0), large.get("sha256"))


def _refusal(answer: httpx2.Response, wanted: Wanted, token: str | None) -> problems.Problem:
    """The hub's refusal as a Problem: no token, a wrong one, a licence not accepted, and not there are four things."""
    status, code = answer.status_code, answer.headers.get("x-error-code", "")
    evidence = {"service": "hub", "repository": wanted.id, "status": status, "code": code, "request_id": answer.headers.get("x-request-id")}
    what = f"The {wanted.kind} {wanted.id}"
    if status == 429:
        busy = problems.Busy("hub.busy", "The model hub answers that it was asked too often.", evidence=evidence)
        told = answer.headers.get("retry-after", "")
        busy.retry_after_seconds = int(told) if told.isdigit() else 30
        return busy
    if code == "GatedRepo" or (status == 403 and token):
        if token:
            return problems.Denied(
                "hub.licence_not_accepted",
                f"{what} is gated, and the owner of this token has not been given access.",
                hint="Accept its licence on the hub with the account of the token, then retry.",
                evidence=evidence,
            )
        return problems.Denied(
            "hub.token_needed", f"{what} is gated: it needs a token.", hint="Store a token and name its Secret.", evidence=evidence
        )
    if status in (401, 403):
        return _no_entry(what, token, evidence)
    if code == "RevisionNotFound":
        return problems.NotFound("hub.revision_not_found", f"{what} has no revision {wanted.revision}.", evidence=evidence)
    if status == 404:
        hint = "Check its spelling: owner/name."
        return problems.NotFound("hub.repository_not_found", f"{what} is not on the hub.", hint=hint, evidence=evidence)
    if status >= 500:
        return problems.Busy("hub.failing", f"The model hub answers {status}.", evidence=evidence)
    return problems.Broken("hub.unexpected", f"The model hub answers {status} to {wanted.id}.", evidence=evidence)


def _no_entry(what: str, token: str | None, evidence: dict[str, Any]) -> problems.Problem:
    if token:
        hint = "Make a new token on the hub and store it."
        return problems.Denied("hub.token_refused", f"{what} is not shown to the owner of this token.", hint=hint, evidence=evidence)
    return problems.NotFound(
        "hub.repository_not_found",
        f"{what} is not on the hub, or is private: without a token the hub does not tell which.",
        hint="Check its spelling, or name the Secret of a token that may read it.",
        evidence=evidence,
    )
