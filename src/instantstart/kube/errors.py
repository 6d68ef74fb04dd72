"""The one place where an answer of the Kubernetes API, or its absence, becomes a Problem.

A ``Status`` object is read by its ``code``, ``reason`` and ``details`` first and by its message only where the API
has nothing else (webhooks, disruption budgets, field managers).
Sources: Kubernetes API conventions ("Response Status Kind"); observed texts in cases 7, 10, 32.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from instantstart.base import problems
from instantstart.kube.cluster_ref import ClusterRef

_WEBHOOK = re.compile(r'failed calling webhook "([^"]+)"')
_WEBHOOK_SERVICE = re.compile(r"https?://([a-z0-9-]+)\.([a-z0-9-]+)\.svc|endpoints available for service \"?([a-z0-9-]+)")
_WEBHOOK_ASLEEP = (
    "no endpoints available",
    "connection refused",
    "deadline exceeded",
    "i/o timeout",
    "certificate",
    "EOF",
    "no such host",
    "not found",
)
_WEBHOOK_DENIAL = re.compile(r'admission webhook "([^"]+)" denied the request: ?(.*)', re.DOTALL)
_MANAGER = re.compile(r'conflict with "([^"]+)"')
_SESSION = re.compile(r"^arn:([\w-]+):sts::(\d{12}):assumed-role/([^/]+)/")
_INDEX = re.compile(r"\[(\d+)\]")
#: EKS checks the date of a token's signature; STS allows five minutes.
MAX_SKEW_SECONDS = 300


@dataclass(frozen=True)
class Call:
    """What was sent, for the words of a Problem. ``principal`` is asked only after a refusal: it may cost an STS call."""

    ref: ClusterRef
    method: str
    path: str
    principal: Callable[[], str | None] = field(default=lambda: None)

    def evidence(self, status: int | None = None, **more: Any) -> dict[str, Any]:
        """Service, cluster, request and answer, as a person would look them up."""
        facts: dict[str, Any] = {"service": "kubernetes", "cluster": self.ref.name, "region": self.ref.region}
        facts["request"] = f"{self.method} {self.path}"
        if status is not None:
            facts["status"] = status
        return facts | {k: v for k, v in more.items() if v}


@dataclass(frozen=True)
class Told:
    """A parsed Status: what the API said."""

    code: int
    reason: str
    message: str
    details: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def causes(self) -> list[Mapping[str, Any]]:
        """``details.causes``, an empty list when there is none."""
        return [c for c in self.details.get("causes") or [] if isinstance(c, Mapping)]

    def has_cause(self, reason: str) -> bool:
        """Whether one cause carries this machine-readable reason."""
        return any(c.get("reason") == reason for c in self.causes)


def from_response(code: int, body: bytes, headers: Mapping[str, str], call: Call) -> problems.Problem:
    """The Problem that an answer of 400 or more tells."""
    told = read_status(code, body, headers)
    return _wait_as_told(_BY_CODE.get(told.code, _other)(told, call), told)


def read_status(code: int, body: bytes, headers: Mapping[str, str]) -> Told:
    """The Status in a body; a body that is none (a proxy's page, ``404 page not found``) becomes its text."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, Mapping) or document.get("kind") != "Status":
        return Told(code, "", body[:300].decode("utf-8", "replace").strip() or f"HTTP {code}", {}, headers)
    # A Status inside a watch stream has its own code: the HTTP answer was 200.
    reason, message = (str(document.get(key) or "") for key in ("reason", "message"))
    return Told(int(document.get("code") or code), reason, message, document.get("details") or {}, headers)


def from_transport(error: Exception, call: Call) -> problems.Unreachable:
    """The Problem for a request that got no answer: neither yes nor no."""
    where = f"the Kubernetes API of {call.ref.name}"
    facts = call.evidence(endpoint=call.ref.endpoint, error=f"{type(error).__name__}: {error}".rstrip(": "))
    if isinstance(error, httpx2.ConnectError) and _is_certificate(error):
        return problems.Unreachable(
            "kubernetes.certificate_not_trusted",
            f"What answers at the address of {call.ref.name} shows a certificate that the cluster's authority did not sign.",
            hint="The cluster may have been made anew under the same name: read it again from EKS, or import it again.",
            evidence=facts,
        )
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        hint = "If the cluster was deleted outside InstantStart, forget it. A private endpoint is reached only from its own network."
        return problems.Unreachable("kubernetes.unreachable", f"No connection to {where}.", hint=hint, evidence=facts)
    if isinstance(error, httpx2.TimeoutException):
        detail = f"No answer from {where} in time; whether the request was done is not known."
        return problems.Unreachable("kubernetes.no_answer", detail, evidence=facts)
    return problems.Unreachable("kubernetes.connection_lost", f"The connection to {where} broke before the answer came.", evidence=facts)


def iam_principal(arn: str) -> str:
    """The ARN that an access entry takes: a session of a role is admitted by its role (a role's path is not in the session's ARN)."""
    session = _SESSION.match(arn)
    return f"arn:{session[1]}:iam::{session[2]}:role/{session[3]}" if session else arn


def pointer_of(field_path: str) -> str:
    """``spec.containers[0].name`` as the JSON pointer ``/spec/containers/0/name``."""
    plain = _INDEX.sub(r".\1", field_path.strip().lstrip("."))
    return "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in plain.split(".") if part)


def _is_certificate(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _unauthorized(told: Told, call: Call) -> problems.Problem:
    skew = _skew_seconds(told.headers)
    if skew is not None and abs(skew) > MAX_SKEW_SECONDS:
        side = "behind" if skew > 0 else "ahead of"
        return problems.Denied(
            "kubernetes.clock_skew",
            f"{call.ref.name} refused our token: this machine's clock is {abs(skew):.0f} seconds {side} the cluster's.",
            hint="Set this machine's clock (NTP); tokens carry their time in the signature.",
            evidence=call.evidence(told.code, skew_seconds=round(skew)),
        )
    principal = iam_principal(call.principal() or "") or None
    ref = call.ref
    who = principal or "<the ARN of the role or user that InstantStart runs as>"
    policy = f"arn:{ref.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    commands = [
        f"aws eks create-access-entry --region {ref.region} --cluster-name {ref.name} --principal-arn {who}",
        f"aws eks associate-access-policy --region {ref.region} --cluster-name {ref.name} --principal-arn {who} "
        f"--policy-arn {policy} --access-scope type=cluster",
    ]
    return problems.Denied(
        "kubernetes.not_admitted",
        f"The cluster {ref.name} does not admit {principal or 'our AWS identity'}: it has no access entry, or one made seconds ago.",
        hint="Let an administrator of the cluster run: " + " && ".join(commands),
        evidence=call.evidence(told.code, principal=principal, access_policy=policy, commands=commands),
    )


def _skew_seconds(headers: Mapping[str, str]) -> float | None:
    """Seconds by which the server's clock is ahead of ours, from its Date header; None when it sends none."""
    try:
        theirs = parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError):
        return None
    theirs = theirs if theirs.tzinfo else theirs.replace(tzinfo=dt.UTC)
    return (theirs - dt.datetime.now(dt.UTC)).total_seconds()


def _forbidden(told: Told, call: Call) -> problems.Problem:
    denial = _WEBHOOK_DENIAL.search(told.message)
    if denial:
        return _denied_by_webhook(denial, told, call)
    if told.has_cause("NamespaceTerminating") or "is being terminated" in told.message:
        return problems.Busy(
            "kubernetes.namespace_terminating", f"The namespace is being removed: {told.message}", evidence=call.evidence(told.code)
        )
    if "exceeded quota" in told.message:
        return problems.OutOfQuota("kubernetes.quota_exceeded", told.message, evidence=call.evidence(told.code, reason=told.reason))
    principal = iam_principal(call.principal() or "") or None
    return problems.Denied(
        "kubernetes.forbidden",
        f"{principal or 'Our identity'} may not do this in {call.ref.name}: {told.message}",
        hint="Its access entry covers less than the whole cluster: associate AmazonEKSClusterAdminPolicy with the scope cluster.",
        evidence=call.evidence(told.code, principal=principal),
    )


def _denied_by_webhook(denial: re.Match[str], told: Told, call: Call) -> problems.Problem:
    return problems.Invalid(
        "kubernetes.admission_denied",
        f"{denial[1]} refused it: {denial[2]}",
        hint="A policy of the cluster forbids this object; change what is asked, or the policy.",
        evidence=call.evidence(told.code, webhook=denial[1]),
    )


def _not_found(told: Told, call: Call) -> problems.Problem:
    name = told.details.get("name")
    if (not name and told.reason != "NotFound") or "could not find the requested resource" in told.message:
        return problems.NotFound(
            "kubernetes.kind_not_served",
            f"{call.ref.name} does not serve {call.path}: the custom resource definition, or the add-on that brings it, is not there.",
            evidence=call.evidence(told.code),
        )
    return problems.NotFound(
        "kubernetes.not_found", told.message, evidence=call.evidence(told.code, name=name, object=told.details.get("kind"))
    )


def _conflict(told: Told, call: Call) -> problems.Problem:
    if told.reason == "AlreadyExists":
        return problems.Conflict(
            "kubernetes.already_exists", told.message, evidence=call.evidence(told.code, name=told.details.get("name"))
        )
    owned = [c for c in told.causes if c.get("reason") == "FieldManagerConflict"]
    if owned:
        return _field_conflict(owned, told, call)
    if "precondition" in told.message.lower():
        return problems.Conflict(
            "kubernetes.precondition_failed",
            told.message,
            hint="The object was replaced since it was read.",
            evidence=call.evidence(told.code),
        )
    if "object has been modified" in told.message:
        return problems.Busy("kubernetes.object_changed", told.message, evidence=call.evidence(told.code))
    return problems.Conflict("kubernetes.conflict", told.message, evidence=call.evidence(told.code, reason=told.reason))


def _field_conflict(owned: list[Mapping[str, Any]], told: Told, call: Call) -> problems.Problem:
    managers = sorted({m for c in owned for m in _MANAGER.findall(str(c.get("message", "")))} or set(_MANAGER.findall(told.message)))
    paths = [str(c.get("field", "")) for c in owned]
    name = told.details.get("name") or call.path.rsplit("/", 1)[-1]
    return problems.Conflict(
        "kubernetes.field_conflict",
        f"{name} has {len(paths)} field{'s' * (len(paths) != 1)} that {', '.join(managers) or 'another manager'} set: {', '.join(paths)}.",
        hint="Leave those fields to their manager, or choose to overwrite them.",
        fields=[problems.Violation(pointer_of(p), f"is managed by {', '.join(managers) or 'another manager'}") for p in paths],
        evidence=call.evidence(told.code, managers=managers),
    )


def _unprocessable(told: Told, call: Call) -> problems.Problem:
    denial = _WEBHOOK_DENIAL.search(told.message)
    if denial:
        return _denied_by_webhook(denial, told, call)
    fields = [problems.Violation(pointer_of(str(c.get("field", ""))), str(c.get("message", ""))) for c in told.causes if c.get("field")]
    return problems.Invalid(
        "kubernetes.invalid_object", told.message, fields=fields, evidence=call.evidence(told.code, name=told.details.get("name"))
    )


def _bad_request(told: Told, call: Call) -> problems.Problem:
    denial = _WEBHOOK_DENIAL.search(told.message)
    if denial:
        return _denied_by_webhook(denial, told, call)
    return problems.Invalid("kubernetes.bad_request", told.message, evidence=call.evidence(told.code, reason=told.reason))


def _expired(told: Told, call: Call) -> problems.Problem:
    detail = "The list or watch goes further back than the API server remembers: read it anew."
    return problems.Busy("kubernetes.expired", detail, evidence=call.evidence(told.code))


def _too_many(told: Told, call: Call) -> problems.Problem:
    facts = call.evidence(told.code)
    if told.has_cause("DisruptionBudget") or "disruption budget" in told.message:
        return problems.Busy("kubernetes.disruption_budget", f"A disruption budget holds the pod: {told.message}", evidence=facts)
    return problems.Busy("kubernetes.throttled", f"The Kubernetes API of {call.ref.name} asks us to slow down.", evidence=facts)


def _server_error(told: Told, call: Call) -> problems.Problem:
    webhook = _WEBHOOK.search(told.message)
    if webhook and any(text in told.message for text in _WEBHOOK_ASLEEP):
        found = _WEBHOOK_SERVICE.search(told.message)
        service = None if found is None else f"{found[2]}/{found[1]}" if found[1] else found[3]
        return problems.Busy(
            "kubernetes.webhook_not_ready",
            f"The webhook {webhook[1]} is not answering yet (service {service or 'unknown'}): {told.message}",
            evidence=call.evidence(told.code, webhook=webhook[1], webhook_service=service),
        )
    detail = f"The Kubernetes API of {call.ref.name} failed: {told.message}"
    return problems.Busy("kubernetes.server_error", detail, evidence=call.evidence(told.code))


def _wait_as_told(problem: problems.Problem, told: Told) -> problems.Problem:
    """With the server's own word on when to come back, when it gave one."""
    seconds = str(told.headers.get("retry-after") or told.details.get("retryAfterSeconds") or "")
    if isinstance(problem, problems.Busy) and seconds.isdigit():
        problem.retry_after_seconds = max(int(seconds), 1)
    return problem


def _other(told: Told, call: Call) -> problems.Problem:
    if told.code >= 500:
        return _server_error(told, call)
    return problems.Broken(
        "kubernetes.unexpected_answer",
        f"{call.method} {call.path} was answered {told.code}: {told.message}",
        evidence=call.evidence(told.code),
    )


_BY_CODE: dict[int, Callable[[Told, Call], problems.Problem]] = {
    400: _bad_request,
    401: _unauthorized,
    403: _forbidden,
    404: _not_found,
    409: _conflict,
    410: _expired,
    422: _unprocessable,
    429: _too_many,
    500: _server_error,
}
