"""What is true of an identity chain now, link by link, and verified: trust against the live issuer, policies, annotation, pods.

Pure, over what was read. A link is ``ok``, ``missing``, ``wrong`` (somebody changed it, or it is an older cluster's), ``warning`` (it
holds, and lets in somebody whom we did not: theirs to decide, so no drift) or ``unknown`` (could not be read, or nothing shows it yet).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from instantstart.base import problems
from instantstart.ensure.iam import trusts
from instantstart.ensure.iam.roles import SeenRole
from instantstart.ensure.identity_chains.chains import Account, Chain, Via
from instantstart.ensure.installs.releases import sentence

Resource = dict[str, Any]
ANNOTATION = "eks.amazonaws.com/role-arn"
#: what EKS puts into the environment of a pod that was started with a role (EKS user guide: IRSA; pod identity)
_BY_TOKEN, _BY_AGENT = "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_FULL_URI"


class Standing(StrEnum):
    """How a link stands."""

    ok = "ok"
    missing = "missing"
    wrong = "wrong"
    warning = "warning"
    unknown = "unknown"


BROKEN = frozenset({Standing.missing, Standing.wrong})


@dataclass(frozen=True)
class Link:
    """One link of one chain. ``detail``: what is there, or what is wrong, in a sentence."""

    chain: str
    link: str
    status: Standing
    detail: str


@dataclass(frozen=True)
class Association:
    """A pod identity association. ``owner``: the ARN of the add-on that made it, if one did."""

    id: str
    role_arn: str
    owner: str | None = None


@dataclass(frozen=True)
class Seen:
    """What was read. A part that could not be read is a Problem: its links are unknown, and say why."""

    #: audiences of the cluster's OIDC provider; None: it is not registered
    audiences: frozenset[str] | problems.Problem | None = None
    roles: Mapping[str, SeenRole] | problems.Problem = field(default_factory=dict)
    #: ``(namespace, name)`` -> the ServiceAccount
    accounts: Mapping[tuple[str, str], Resource] | problems.Problem = field(default_factory=dict)
    associations: Mapping[tuple[str, str], Association] | problems.Problem = field(default_factory=dict)
    #: ``(namespace, account)`` -> its pods
    pods: Mapping[tuple[str, str], list[Resource]] | problems.Problem = field(default_factory=dict)
    audience: str = ""
    #: the cluster's tag: a role of our name without it is somebody else's
    tag: str = ""


def links(chain: Chain, seen: Seen) -> tuple[Link, ...]:
    """Every link of a chain, first to last."""
    return tuple(_links(chain, seen))


def _links(chain: Chain, seen: Seen) -> Iterator[Link]:
    if chain.issuer is not None:
        yield _provider(chain, seen)
    yield from _role(chain, seen)
    for account in chain.accounts:
        yield from _account(chain, account, seen)


def _provider(chain: Chain, seen: Seen) -> Link:
    issuer = str(chain.issuer).removeprefix("https://")
    if isinstance(seen.audiences, problems.Problem):
        return Link(chain.name, "oidc_provider", Standing.unknown, seen.audiences.detail)
    if seen.audiences is None:
        return Link(chain.name, "oidc_provider", Standing.missing, f"IAM does not know the cluster's issuer {issuer}.")
    if seen.audience not in seen.audiences:
        return Link(chain.name, "oidc_provider", Standing.wrong, f"The provider of {issuer} does not take the audience {seen.audience}.")
    return Link(chain.name, "oidc_provider", Standing.ok, issuer)


def _role(chain: Chain, seen: Seen) -> Iterator[Link]:
    if isinstance(seen.roles, problems.Problem):
        yield Link(chain.name, "role", Standing.unknown, seen.roles.detail)
        return
    role = seen.roles.get(chain.role)
    if role is None:
        yield Link(chain.name, "role", Standing.missing, f"There is no role {chain.role}.")
        return
    if not role.is_of(seen.tag):
        yield Link(chain.name, "role", Standing.wrong, f"The role {chain.role} was not made for this cluster, and is not changed.")
        return
    yield Link(chain.name, "role", Standing.ok, role.arn)
    flaw = trusts.flaw(role.trust, chain.trust)
    yield Link(chain.name, "trust", Standing.wrong if flaw else Standing.ok, f"{chain.role}: {flaw or 'trusts exactly whom it should'}.")
    yield from (_foreign(chain, statement) for statement in trusts.foreign(role.trust, chain.trust))
    lacks = lacking_policies(chain, role)
    told = f"{chain.role} lacks {sentence(lacks)}." if lacks else f"{chain.role} may do what it must."
    yield Link(chain.name, "policies", Standing.wrong if lacks else Standing.ok, told)


def _foreign(chain: Chain, statement: Mapping[str, Any]) -> Link:
    told = (
        f"{chain.role} also trusts an issuer that is not this cluster's. InstantStart did not write that and leaves it. "
        f"If nobody needs it, take this statement out of the role's trust in IAM: {json.dumps(statement, sort_keys=True)}"
    )
    return Link(chain.name, "foreign_trust", Standing.warning, told)


def lacking_policies(chain: Chain, role: SeenRole) -> list[str]:
    """The managed policies that are not attached, and the inline ones that do not grant all they should."""
    lacks = [name for name in chain.managed if name not in role.managed]
    for name, grants in chain.inline.items():
        if not all(trusts.allows(role.inline.get(name), grant) for grant in grants):
            lacks.append(f"the policy {name}")
    return lacks


def _account(chain: Chain, account: Account, seen: Seen) -> Iterator[Link]:
    if isinstance(seen.accounts, problems.Problem):
        yield Link(chain.name, "service_account", Standing.unknown, seen.accounts.detail)
        return
    live = seen.accounts.get((account.namespace, account.name))
    if live is None and account.via is Via.annotation:
        yield Link(chain.name, "service_account", Standing.missing, f"There is no service account {account.label}.")
        return
    if live is not None:
        yield Link(chain.name, "service_account", Standing.ok, account.label)
    role = seen.roles.get(chain.role) if isinstance(seen.roles, Mapping) else None
    yield _annotation(chain, account, live or {}, role, seen) if account.via is Via.annotation else _association(chain, account, role, seen)
    yield from _pods(chain, account, role, seen)


def _annotation(chain: Chain, account: Account, live: Resource, role: SeenRole | None, seen: Seen) -> Link:
    have = ((live.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION)
    if have is None:
        return Link(chain.name, "annotation", Standing.missing, f"{account.label} names no role.")
    if role is None or have != role.arn:
        return Link(chain.name, "annotation", Standing.wrong, f"{account.label} names the role {have}, not {chain.role}.")
    other = seen.associations.get((account.namespace, account.name)) if isinstance(seen.associations, Mapping) else None
    if other is not None and other.role_arn != role.arn:
        told = f"{account.label} is annotated with {chain.role} and associated with {other.role_arn}: which one pods get is undefined."
        return Link(chain.name, "annotation", Standing.wrong, told)
    return Link(chain.name, "annotation", Standing.ok, f"{account.label} names {chain.role}.")


def _association(chain: Chain, account: Account, role: SeenRole | None, seen: Seen) -> Link:
    if isinstance(seen.associations, problems.Problem):
        return Link(chain.name, "association", Standing.unknown, seen.associations.detail)
    have = seen.associations.get((account.namespace, account.name))
    if have is None:
        return Link(chain.name, "association", Standing.missing, f"{account.label} is associated with no role.")
    if role is None or have.role_arn != role.arn:
        return Link(chain.name, "association", Standing.wrong, f"{account.label} is associated with {have.role_arn}, not {chain.role}.")
    return Link(chain.name, "association", Standing.ok, f"{account.label} is associated with {chain.role}.")


def _pods(chain: Chain, account: Account, role: SeenRole | None, seen: Seen) -> Iterator[Link]:
    if isinstance(seen.pods, problems.Problem):
        yield Link(chain.name, "pods", Standing.unknown, seen.pods.detail)
        return
    running = [p for p in seen.pods.get((account.namespace, account.name), ()) if is_running(p)]
    if not running:
        return  # nothing shows it yet: no node, or no job
    late = [p["metadata"]["name"] for p in running if not sees(p, account, role.arn if role else "")]
    if late:
        told = f"{sentence(late, 3)} started before the role was given and must be restarted."
        yield Link(chain.name, "pods", Standing.wrong, told)
    else:
        yield Link(chain.name, "pods", Standing.ok, f"{len(running)} pods of {account.label} got the role.")


def is_running(pod: Resource) -> bool:
    """Whether a pod is neither ended nor ending."""
    return not pod["metadata"].get("deletionTimestamp") and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def sees(pod: Resource, account: Account, role_arn: str) -> bool:
    """Whether a pod was started with the role: what EKS put into its environment says so."""
    found = {e["name"]: e.get("value") for c in pod["spec"].get("containers", ()) for e in c.get("env") or ()}
    return found.get(_BY_TOKEN) == role_arn if account.via is Via.annotation else _BY_AGENT in found
