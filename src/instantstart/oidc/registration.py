"""What we are to the provider, and what its claims mean here. Pure; nothing is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from instantstart.base import problems
from instantstart.base.settings import Settings

#: in rising order
ROLES = ("viewer", "operator", "admin")
_NAME_LENGTH = 80


@dataclass(frozen=True)
class Person:
    """Who signed in: ``subject`` is the provider's own name for them, which never changes."""

    subject: str
    name: str
    role: str


@dataclass(frozen=True)
class Registration:
    """Our client at the provider. The secret is never shown: not in a repr either."""

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: str = "openid profile email"
    role_claim: str = "groups"
    roles: Mapping[str, str] = field(default_factory=dict)
    default_role: str = ""
    domains: frozenset[str] = frozenset()

    def admit(self, claims: Mapping[str, Any]) -> Person:
        """Who may enter, as what. Raises Denied for a person whom no setting lets in."""
        email = str(claims.get("email") or "")
        verified = claims.get("email_verified") is True
        if self.domains and not (verified and email.rpartition("@")[2].lower() in self.domains):
            raise problems.Denied(
                "sign_in.domain_refused",
                "Your e-mail address is not verified, or of none of the domains that may enter.",
                hint="Ask an administrator; the setting is INSTANTSTART_OIDC_DOMAINS.",
            )
        given = {self.roles[value] for value in values_of(claims, self.role_claim) if value in self.roles}
        role = max(given, key=ROLES.index, default=self.default_role)
        if not role:
            raise problems.Denied(
                "sign_in.no_role",
                "You are known, but nothing gives you a role here.",
                hint=f"Ask an administrator to map one of your {self.role_claim} (INSTANTSTART_OIDC_ROLES).",
            )
        return Person(str(claims["sub"]), _name(claims, email if verified else ""), role)


def values_of(claims: Mapping[str, Any], claim: str) -> Iterator[str]:
    """The texts of a claim: its own name first, then dots as a way into objects."""
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        yield found
    elif isinstance(found, list):
        yield from (each for each in found if isinstance(each, str))


def _name(claims: Mapping[str, Any], email: str) -> str:
    told = (email, *(claims.get(key) for key in ("preferred_username", "name", "sub")))
    name = next((each for each in told if isinstance(each, str) and each.strip()), "somebody")
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name.strip())[:_NAME_LENGTH]


def from_settings(settings: Settings) -> Registration | None:
    """The registration that the settings describe; None: nobody signs in that way. Raises Invalid for half a description."""
    if not settings.oidc_issuer:
        return None
    if not settings.oidc_client_id:
        raise problems.Invalid("settings.oidc", "INSTANTSTART_OIDC_ISSUER needs INSTANTSTART_OIDC_CLIENT_ID beside it.")
    if "openid" not in settings.oidc_scopes.split():
        raise problems.Invalid("settings.oidc", "INSTANTSTART_OIDC_SCOPES must have openid among them.")
    pairs = [each.strip().rpartition("=") for each in settings.oidc_roles.split(";") if each.strip()]
    return Registration(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=_secret(settings),
        scopes=settings.oidc_scopes,
        role_claim=settings.oidc_role_claim,
        roles={value: role for value, _, role in pairs},
        default_role=settings.oidc_default_role,
        domains=frozenset(each.strip().lower() for each in settings.oidc_domains.split(",") if each.strip()),
    )


def _secret(settings: Settings) -> str | None:
    if settings.oidc_client_secret_file is not None:
        try:
            return settings.oidc_client_secret_file.read_text(encoding="utf-8").strip() or None
        except (OSError, ValueError) as error:
            raise problems.Invalid(
                "settings.oidc", f"The client secret cannot be read from {settings.oidc_client_secret_file}: {type(error).__name__}."
            ) from error
    return settings.oidc_client_secret.get_secret_value() if settings.oidc_client_secret else None
