"""Which tracking servers the cluster's training pods may log to: choices of the chain ``mlflow``, kept as tags on its role."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from instantstart.base import problems
from instantstart.base.outcome import Wait
from instantstart.ensure.iam import identity, principals, roles, trusts
from instantstart.ensure.identity_chains import chain_links, chain_steps, chains
from instantstart.ensure.identity_chains.chain_steps import Hands
from instantstart.ensure.identity_chains.chains import REMEMBERED, Chain, Ground
from instantstart.ensure.mlflow.tracking import Server, TrackingKind
from instantstart.ensure.sites import Site

#: the most that a tag of IAM holds
_TAG_LIMIT = 256
_POLICY = "mlflow"
#: as long as the part of an app's ARN, which SageMaker chooses
_APP = "mlflow-app/app-" + "X" * 12
_NOUNS = {"namespace": "namespaces", "servers": "servers and apps", "artifacts": "artifact folders"}
HINT = "Delete a tracking server that is not needed, take shorter names, let servers share an artifact folder, or name fewer namespaces."


@dataclass(frozen=True)
class Wish:
    """What is to be reachable: a server or app, from the pods of some namespaces."""

    server: Server
    namespaces: tuple[str, ...]


def resource(server: Server) -> str:
    """The part of its ARN that tells it apart, as it is remembered."""
    return server.arn.rsplit(":", 1)[1]


def folder(server: Server) -> str:
    """Its artifacts' bucket and folder, as they are remembered."""
    return (server.artifact_store or "").removeprefix("s3://").rstrip("/")


def remembered(ground: Ground) -> dict[str, str]:
    """The choices that the role keeps; none when it is not there, or not ours."""
    role = roles.find(ground.where.aws, ground.where.names.mlflow_role)
    return chain_steps.choices(role) if role is not None and role.is_of(ground.where.tag) else {}


def with_wish(ground: Ground, wish: Wish) -> Chain:
    """The chain with a wish added to what it is. Raises Conflict ``mlflow.too_many`` when IAM cannot remember so many."""
    choices = _with(remembered(ground), resource(wish.server), folder(wish.server), wish.namespaces)
    _check(choices)
    return chains.mlflow(Ground(ground.where, ground.cluster, choices))


def check_room(where: Site, wish: Wish) -> None:
    """Raises Conflict ``mlflow.too_many`` before anything is made, when there is no room for a server that stands."""
    _check(_with(remembered(Ground(where, {})), resource(wish.server), folder(wish.server), wish.namespaces))


def no_room(where: Site, kind: TrackingKind, name: str, store: str, namespaces: Iterable[str]) -> str | None:
    """Why a server that is not made yet would have no room; None when it has."""
    part = f"mlflow-tracking-server/{name}" if kind is TrackingKind.tracking_server else _APP
    choices = _with(remembered(Ground(where, {})), part, store.removeprefix("s3://").rstrip("/"), namespaces)
    return _too_many(choices)


def _with(kept: Mapping[str, str], part: str, store: str, namespaces: Iterable[str]) -> dict[str, str]:
    return {
        "namespace": _joined(kept.get("namespace", "").split(), namespaces),
        "servers": _joined(kept.get("servers", "").split(), [part]),
        "artifacts": _joined(kept.get("artifacts", "").split(), [store] if store else []),
    }


def _joined(kept: Iterable[str], more: Iterable[str]) -> str:
    return " ".join(dict.fromkeys((*kept, *more)))


def _too_many(choices: Mapping[str, str]) -> str | None:
    long = [f"{len(value.split())} {_NOUNS[key]} are {len(value)}" for key, value in choices.items() if len(value) > _TAG_LIMIT]
    if not long:
        return None
    return f"The role of the training pods remembers them in tags, and a tag of IAM holds {_TAG_LIMIT} characters: {', '.join(long)}."


def _check(choices: Mapping[str, str]) -> None:
    told = _too_many(choices)
    if told:
        raise problems.Conflict("mlflow.too_many", told, hint=HINT)


def forget_step(hands: Hands, ground: Ground, server: Server) -> Wait | None:
    """One step towards the pods no longer reaching a server. With the last one the whole chain goes."""
    kept = remembered(ground)
    servers = kept.get("servers", "").split()
    if resource(server) not in servers:
        return None
    rest = [name for name in servers if name != resource(server)]
    if not rest:
        return chain_steps.remove_step(hands, chains.mlflow(Ground(ground.where, ground.cluster, kept)))
    stores = [store for store in kept.get("artifacts", "").split() if store != folder(server)]
    choices = {**kept, "servers": " ".join(rest), "artifacts": " ".join(stores)}
    chain = chains.mlflow(Ground(ground.where, ground.cluster, choices))
    document = json.dumps(trusts.granted(None, chain.inline[_POLICY]))
    hands.where.aws.write("iam", "put_role_policy", RoleName=chain.role, PolicyName=_POLICY, PolicyDocument=document)
    tags = [{"Key": REMEMBERED + key, "Value": value} for key, value in choices.items()]
    hands.where.aws.write("iam", "tag_role", RoleName=chain.role, Tags=tags)
    return Wait(0, f"Took {server.name} out of {chain.role}")


def read_seen(hands: Hands, chain: Chain) -> chain_links.Seen:
    """What shows whether the chain holds: provider, role, accounts. The pods are left to the features' own look."""
    aws = hands.where.aws
    role = roles.find(aws, chain.role)
    found = {(a.namespace, a.name): hands.kube.find("ServiceAccount", a.name, a.namespace) for a in chain.accounts}
    audiences: frozenset[str] | None = None
    with contextlib.suppress(problems.NotFound):
        arn = identity.provider_arn(aws, str(chain.issuer))
        told = aws.read("iam", "get_open_id_connect_provider", OpenIDConnectProviderArn=arn)
        audiences = frozenset(told.get("ClientIDList", ()))
    return chain_links.Seen(
        audiences,
        {role.name: role} if role else {},
        {key: live for key, live in found.items() if live is not None},
        audience=principals.service("sts"),
        tag=hands.where.tag,
    )
