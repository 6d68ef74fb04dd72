"""Trust and permission documents compared and extended statement by statement: what others wrote into a role stays.

Pure. Two statements are the same when they say the same, whatever their Sid, their key order, and whether a single value stands in
a list. Facts: aws-facts A8.3 (IRSA and pod identity trusts), cases 27 and 29.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from instantstart.ensure.iam import principals

Statement = Mapping[str, Any]
_WEB = "sts:AssumeRoleWithWebIdentity"
_PODS = principals.service("pods.eks")


def web_identity(provider_arn: str, issuer: str, namespace: str, account: str) -> dict[str, Any]:
    """The statement that lets one service account assume a role by its token: audience and subject both bound.

    An account with ``*`` in it (a family of accounts that an operator makes) is matched by StringLike.
    """
    host = issuer.removeprefix("https://")
    subject = f"system:serviceaccount:{namespace}:{account}"
    audience = {f"{host}:aud": principals.service("sts")}
    exact = {"StringEquals": {**audience, f"{host}:sub": subject}}
    condition = {"StringEquals": audience, "StringLike": {f"{host}:sub": subject}} if "*" in subject else exact
    return {"Effect": "Allow", "Principal": {"Federated": provider_arn}, "Action": _WEB, "Condition": condition}


def pod_identity(cluster_arn: str, account_id: str) -> dict[str, Any]:
    """The statement that lets pods of one EKS cluster take a role by pod identity."""
    condition = {"StringEquals": {"aws:SourceAccount": account_id}, "ArnEquals": {"aws:SourceArn": cluster_arn}}
    actions = ["sts:AssumeRole", "sts:TagSession"]
    return {"Effect": "Allow", "Principal": {"Service": _PODS}, "Action": actions, "Condition": condition}


def service(name: str) -> dict[str, Any]:
    """The statement that lets one AWS service assume a role."""
    return {"Effect": "Allow", "Principal": {"Service": principals.service(name)}, "Action": "sts:AssumeRole"}


def statements(document: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The statements of a document, as a list."""
    found = (document or {}).get("Statement", [])
    return [found] if isinstance(found, dict) else list(found)


def lacking(document: Mapping[str, Any] | None, wanted: Iterable[Statement]) -> list[dict[str, Any]]:
    """The wanted statements that the document does not say."""
    said = {_canonical(s) for s in statements(document)}
    return [dict(w) for w in wanted if _canonical(w) not in said]


def extended(document: Mapping[str, Any] | None, wanted: Sequence[Statement]) -> dict[str, Any]:
    """The document with every wanted statement in it. Older or broken forms of the same wish go; everything else stays."""
    kept = [s for s in statements(document) if _canonical(s) in {_canonical(w) for w in wanted} or not _is_spoiled(s, wanted)]
    return {"Version": "2012-10-17", "Statement": [*kept, *lacking({"Statement": kept}, wanted)]}


def foreign(document: Mapping[str, Any] | None, wanted: Sequence[Statement]) -> list[dict[str, Any]]:
    """Statements that let in tokens of another issuer and are no form of what is wanted: somebody else wrote them, on purpose perhaps.

    They are told and never taken away by themselves.
    """
    right = {_canonical(w) for w in wanted}
    live = {name for w in wanted for name in _listed(w["Principal"].get("Federated"))}
    return [s for s in statements(document) if _canonical(s) not in right and not _is_spoiled(s, wanted) and _lets_in_others(s, live)]


def _lets_in_others(statement: Statement, live: set[str]) -> bool:
    principal = statement.get("Principal")
    if statement.get("Effect") != "Allow" or not isinstance(principal, Mapping) or _WEB not in _listed(statement.get("Action")):
        return False
    return any("oidc-provider/" in name and name not in live for name in _listed(principal.get("Federated")))


def flaw(document: Mapping[str, Any] | None, wanted: Sequence[Statement]) -> str | None:
    """What is wrong with a trust, in words; None when it says all that is wanted and nothing spoiled (case 27)."""
    right = {_canonical(w) for w in wanted}
    spoiled = [s for s in statements(document) if _canonical(s) not in right and _is_spoiled(s, wanted)]
    for statement in spoiled:
        if _WEB in _listed(statement.get("Action")):
            return _web_flaw(statement, wanted)
    missing = lacking(document, wanted)
    if not missing:
        return None if not spoiled else "it trusts pod identity of another cluster or account"
    return f"it does not trust {' and '.join(_trusted(m) for m in missing)}"


def _web_flaw(statement: Statement, wanted: Sequence[Statement]) -> str:
    live = {str(w["Principal"]["Federated"]) for w in wanted if "Federated" in w["Principal"]}
    provider = str(_listed(statement["Principal"]["Federated"])[0])
    keys = [key for block in (statement.get("Condition") or {}).values() for key in block]
    if provider not in live:
        return f"it trusts an issuer that is not this cluster's: {provider.partition('/')[2]}"
    if not any(key.endswith(":sub") for key in keys):
        return "it binds no service account (no :sub condition)"
    return "it binds no audience (no :aud condition)" if not any(k.endswith(":aud") for k in keys) else "its conditions differ"


def _trusted(statement: Statement) -> str:
    principal = statement["Principal"]
    if "Service" in principal:
        return str(principal["Service"])
    subjects = [v for block in statement["Condition"].values() for k, v in block.items() if k.endswith(":sub")]
    return f"{subjects[0]} of this cluster's issuer"


def _is_spoiled(statement: Statement, wanted: Sequence[Statement]) -> bool:
    """Whether a statement is an older or broken form of a wish: another issuer's, or open to every account or cluster."""
    principal = statement.get("Principal")
    if not isinstance(principal, Mapping):
        return False
    if "Federated" in principal:
        if _WEB not in _listed(statement.get("Action")) or "oidc-provider/" not in str(principal["Federated"]):
            return False
        ours = [w for w in wanted if "Federated" in w["Principal"]]
        subjects = _subjects(statement)
        return bool(ours) and (not subjects or bool(subjects & {s for w in ours for s in _subjects(w)}))
    return _listed(principal.get("Service")) == [_PODS] and any(w["Principal"].get("Service") == _PODS for w in wanted)


def _subjects(statement: Statement) -> set[str]:
    blocks = (statement.get("Condition") or {}).values()
    return {text for block in blocks for key, value in block.items() if key.endswith(":sub") for text in _listed(value)}


def allows(document: Mapping[str, Any] | None, wanted: Statement) -> bool:
    """Whether one statement of a policy grants all that ``wanted`` grants under the same conditions (more is fine)."""
    for have in statements(document):
        same = have.get("Effect") == wanted.get("Effect") and _canonical(have.get("Condition")) == _canonical(wanted.get("Condition"))
        wide = set(_listed(have.get("Action"))) >= set(_listed(wanted.get("Action")))
        if same and wide and set(_listed(have.get("Resource"))) >= set(_listed(wanted.get("Resource"))):
            return True
    return False


def granted(document: Mapping[str, Any] | None, wanted: Sequence[Statement]) -> dict[str, Any]:
    """The policy with every wanted grant in it; what it grants besides stays."""
    more = [dict(w) for w in wanted if not allows(document, w)]
    return {"Version": "2012-10-17", "Statement": [*statements(document), *more]}


def _listed(value: Any) -> list[str]:
    return [] if value is None else [str(v) for v in value] if isinstance(value, (list, tuple)) else [str(value)]


def _canonical(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    """Without Sids; every leaf a sorted list of texts."""
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if k != "Sid"}
    if isinstance(value, (list, tuple)) and any(isinstance(v, Mapping) for v in value):
        return [_plain(v) for v in value]
    return sorted(_listed(value))
