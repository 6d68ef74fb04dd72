"""The way to an identity provider and back (OpenID Connect: authorization code with PKCE, state and nonce).

Nothing is signed in by these reading routes: whoever comes back gets a one-time code, and ``POST /session`` takes it together with a proof
that only the browser (its cookie) or the command line (its own secret) has that began.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from instantstart.base import patterns, problems
from instantstart.base.settings import Settings
from instantstart.capabilities.doors import RoomDep, Viewer
from instantstart.oidc.provider import Provider, derived, new_secret
from instantstart.oidc.registration import from_settings
from instantstart.store.records import SignInRow
from instantstart.store.sessions import SIGN_IN_SECONDS, hash_of

router = APIRouter(prefix="/sign-in", tags=["sessions"])
COOKIE = "instantstart_sign_in"
#: the one-time code goes straight from the redirect into POST /session
_CODE_SECONDS = 120.0
_PATH = "/api/v1/"
_REDIRECT: dict[int | str, dict[str, Any]] = {303: {"description": "To the identity provider."}}


def provider_of(settings: Settings) -> Provider | None:
    """The provider that the settings name. Raises Invalid for settings that do not fit together."""
    registration = from_settings(settings)
    return Provider(registration) if registration else None


@dataclass(frozen=True)
class SignInWays:
    """How people may sign in here. ``provider`` names the identity provider and ``start`` leads there; None: there is none."""

    provider: str | None
    start: str | None


@dataclass(frozen=True)
class WayOut:
    """Where a browser also ends its session at the identity provider; None: the provider has no such page."""

    url: str | None


class Departure(BaseModel):
    """Where to go on afterwards, or which command line waits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    next: Annotated[
        str, Field(default="/clusters", max_length=1000, pattern=patterns.OWN_PATH, description="Address of this console to go on at.")
    ]
    port: Annotated[int | None, Field(default=None, ge=1024, le=65535, description="Loopback port where a command line waits.")]
    proof: Annotated[
        str | None, Field(default=None, pattern=patterns.SHA256, description="SHA-256 (hexadecimal) of the command line's secret.")
    ]
    state: Annotated[
        str | None, Field(default=None, max_length=128, pattern=patterns.ID, description="Comes back to the command line as it is.")
    ]

    @model_validator(mode="after")
    def all_of_a_command_line(self) -> Departure:
        """A command line gives all three."""
        if len({self.port is None, self.proof is None, self.state is None}) != 1:
            raise ValueError("need port, proof and state together")
        return self


@router.get("", operation_id="sign_in_get", summary="Ways to sign in")
def get_ways(request: Request) -> SignInWays:
    """What the sign-in page offers besides a token."""
    provider: Provider | None = request.app.state.provider
    if provider is None:
        return SignInWays(None, None)
    return SignInWays(request.app.state.room.settings.oidc_name, "/api/v1/sign-in/oidc")


@router.get(
    "/oidc", operation_id="sign_in_begin", summary="Sign in at the provider", status_code=303, response_class=Response, responses=_REDIRECT
)
def begin(request: Request, room: RoomDep, asked: Annotated[Departure, Query()]) -> Response:
    """Send the browser to the identity provider."""
    provider, secret = _provider(request), new_secret()
    answer = RedirectResponse(provider.way_there(secret, _return_address(request, room.settings)), 303)
    proof_hash = asked.proof or hash_of(derived(secret, "proof"))
    room.store.identities.begin_sign_in(secret, SignInRow(asked.next, proof_hash, asked.port, asked.state))
    answer.set_cookie(
        COOKIE, secret, max_age=int(SIGN_IN_SECONDS), path=_PATH, secure=is_secure(request, room.settings), httponly=True, samesite="lax"
    )
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.get("/oidc/callback", include_in_schema=False)
def come_back(request: Request, room: RoomDep) -> Response:
    """The provider's answer: a one-time code for the console's sign-in page, or for the command line that waits."""
    secret = request.cookies.get(COOKIE, "")
    row: SignInRow | None = room.store.identities.finish_sign_in(secret) if secret else None
    try:
        code = _code(request, room, secret, row)
    except problems.Problem as problem:
        return _told(problem, row)
    assert row is not None
    return _onward(row, {"code": code})


def _code(request: Request, room: Any, secret: str, row: SignInRow | None) -> str:
    """A one-time code for whom the provider vouches for. Raises Problems for everybody else."""
    provider = _provider(request)
    if row is None:
        raise problems.Unauthenticated(
            "sign_in.unknown",
            "This browser began no sign-in, it took longer than ten minutes, or it is done already.",
            hint="Sign in again.",
        )
    answer = dict(request.query_params)
    if len(answer) != len(request.query_params.multi_items()):
        raise problems.Unauthenticated("sign_in.state_wrong", "The provider's answer says a thing twice.", hint="Sign in again.")
    person = provider.registration.admit(provider.claims(answer, secret, _return_address(request, room.settings)))
    identity = room.store.identities.vouched(provider.registration.issuer, person.subject, person.name, person.role)
    if identity is None:
        raise problems.Denied(
            "sign_in.disabled", "You may not enter any more: an administrator has ended that.", hint="Ask an administrator."
        )
    return str(room.store.identities.create_code(identity.id, _CODE_SECONDS, row.proof_hash))


def _onward(row: SignInRow, told: dict[str, str]) -> Response:
    """Only to this console's own page, or to the loopback port that was named when this began."""
    if row.port is None:
        return RedirectResponse(f"/login?next={quote(row.next, safe='')}#{urlencode(told)}", 303, headers={"Cache-Control": "no-store"})
    address = f"http://127.0.0.1:{row.port}/?{urlencode({**told, 'state': row.client_state or ''})}"
    return RedirectResponse(address, 303, headers={"Cache-Control": "no-store"})


def _told(problem: problems.Problem, row: SignInRow | None) -> Response:
    """A refusal: a page for a person; the command line that waits learns the code of the problem."""
    if row is not None and row.port is not None:
        return _onward(row, {"error": problem.code})
    detail, hint = html.escape(problem.detail), html.escape(problem.hint or "")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Not signed in</title></head><body>'
        f'<h1>You are not signed in</h1><p>{detail}</p><p>{hint}</p><p><a href="/login">Back to the sign-in page</a></p>'
        f"<p><small>{html.escape(problem.code)}</small></p></body></html>"
    )
    return HTMLResponse(page, problem.status, headers={"Cache-Control": "no-store"})


@router.get("/oidc/way-out", operation_id="sign_out_get", summary="Sign out at the provider too")
def get_way_out(request: Request, room: RoomDep, _caller: Viewer) -> WayOut:
    """Where to end the session at the identity provider, once the session here is ended."""
    return WayOut(_provider(request).way_out(f"{_base(request, room.settings)}/login"))


def _provider(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise problems.NotFound(
            "sign_in.no_provider", "This server has no identity provider.", hint="Sign in with a token; see docs/how-to/sign-in.md."
        )
    return provider


def _base(request: Request, settings: Settings) -> str:
    """Where browsers reach us: as the settings say, else the host of the request, which the gate has found to be ours."""
    return settings.public_url or f"{request.url.scheme}://{request.url.netloc}"


def _return_address(request: Request, settings: Settings) -> str:
    return f"{_base(request, settings)}/api/v1/sign-in/oidc/callback"


def is_secure(request: Request, settings: Settings) -> bool:
    """Whether cookies are for encrypted connections only."""
    return request.url.scheme == "https" or settings.public_url.startswith("https://")


def browser_proof(request: Request) -> str | None:
    """What a browser has that began a sign-in."""
    secret = request.cookies.get(COOKIE)
    return derived(secret, "proof") if secret else None


def forget_sign_in(response: Response) -> None:
    """The sign-in is done."""
    response.delete_cookie(COOKIE, path=_PATH, httponly=True, samesite="lax")
