"""Each answer of the API becomes the Problem that says what to do; texts as API servers of 1.30-1.36 write them."""

from __future__ import annotations

import datetime as dt
import json
import ssl
from email.utils import format_datetime
from typing import Any

import httpx2
import pytest

from instantstart.base import problems
from instantstart.kube import errors
from instantstart.kube.cluster_ref import ClusterRef

REF = ClusterRef("arn:aws-cn:eks:cn-north-1:111122223333:cluster/demo", "demo", "cn-north-1", "https://example.invalid", "")
SESSION = "arn:aws-cn:sts::111122223333:assumed-role/Operators/i-0abc"


def call(method: str = "GET", path: str = "/api/v1/pods") -> errors.Call:
    return errors.Call(REF, method, path, lambda: SESSION)


def told(code: int, reason: str, message: str, headers: dict[str, str] | None = None, **details: Any) -> problems.Problem:
    body = json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}).encode()
    return errors.from_response(code, body, headers or {}, call())


def test_a_refused_identity_is_told_which_access_entry_to_add() -> None:
    found = told(401, "Unauthorized", "Unauthorized")
    assert isinstance(found, problems.Denied)
    assert found.code == "kubernetes.not_admitted"
    role = "arn:aws-cn:iam::111122223333:role/Operators"
    assert role in found.detail
    assert found.hint is not None
    assert f"aws eks create-access-entry --region cn-north-1 --cluster-name demo --principal-arn {role}" in found.hint
    assert "arn:aws-cn:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy" in found.evidence["commands"][1]


def test_a_refusal_by_a_cluster_with_another_clock_names_the_skew() -> None:
    ahead = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=16)
    found = told(401, "Unauthorized", "Unauthorized", {"date": format_datetime(ahead, usegmt=True)})
    assert found.code == "kubernetes.clock_skew"
    assert "behind" in found.detail


def test_a_small_difference_of_clocks_is_no_skew() -> None:
    found = told(401, "Unauthorized", "Unauthorized", {"date": format_datetime(dt.datetime.now(dt.UTC), usegmt=True)})
    assert found.code == "kubernetes.not_admitted"


@pytest.mark.parametrize(
    ("arn", "expected"),
    [
        (SESSION, "arn:aws-cn:iam::111122223333:role/Operators"),
        ("arn:aws:iam::111122223333:user/anna", "arn:aws:iam::111122223333:user/anna"),
    ],
)
def test_a_session_is_admitted_by_its_role(arn: str, expected: str) -> None:
    assert errors.iam_principal(arn) == expected


def test_a_namespace_only_entry_is_denied_and_not_empty() -> None:
    message = 'pods is forbidden: User "arn:..." cannot list resource "pods" in API group "" at the cluster scope'
    found = told(403, "Forbidden", message, kind="pods")
    assert isinstance(found, problems.Denied)
    assert found.code == "kubernetes.forbidden"
    assert "cannot list resource" in found.detail


def test_a_quota_is_out_of_quota() -> None:
    found = told(403, "Forbidden", 'pods "a" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4')
    assert isinstance(found, problems.OutOfQuota)


def test_a_namespace_on_its_way_out_is_transient() -> None:
    message = 'pods "a" is forbidden: unable to create new content in namespace x because it is being terminated'
    assert told(403, "Forbidden", message, causes=[{"reason": "NamespaceTerminating"}]).kind == "busy"


@pytest.mark.parametrize("code", [400, 403, 422])
def test_a_denial_by_a_webhook_names_it(code: int) -> None:
    found = told(code, "", 'admission webhook "policy.example.com" denied the request: images must be signed')
    assert isinstance(found, problems.Invalid)
    assert found.evidence["webhook"] == "policy.example.com"
    assert found.detail.endswith("images must be signed")


def test_a_conflict_of_field_managers_names_managers_and_fields() -> None:
    causes = [
        {"reason": "FieldManagerConflict", "message": 'conflict with "kubectl-scale" using apps/v1', "field": ".spec.replicas"},
        {"reason": "FieldManagerConflict", "message": 'conflict with "helm"', "field": '.spec.template.spec.containers[name="a"].image'},
    ]
    found = told(409, "Conflict", "Apply failed with 2 conflicts", name="web", kind="deployments", causes=causes)
    assert isinstance(found, problems.Conflict)
    assert found.code == "kubernetes.field_conflict"
    assert found.evidence["managers"] == ["helm", "kubectl-scale"]
    assert found.fields[0].pointer == "/spec/replicas"
    assert "web has 2 fields" in found.detail


def test_an_object_changed_under_us_is_tried_again() -> None:
    message = 'Operation cannot be fulfilled on nodes "a": the object has been modified; please apply your changes to the latest version'
    assert told(409, "Conflict", message).kind == "busy"


@pytest.mark.parametrize(
    "said",
    [
        "Precondition failed: UID in precondition: b, UID in object meta: c",
        "the UID in the precondition (b) does not match the UID in record (c). The object might have been deleted and then recreated",
    ],
)
def test_a_failed_precondition_is_a_conflict(said: str) -> None:
    found = told(409, "Conflict", f'Operation cannot be fulfilled on pods "a": {said}')
    assert found.code == "kubernetes.precondition_failed"


def test_an_invalid_object_points_at_every_field() -> None:
    causes = [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers[0].name"},
        {"reason": "FieldValueInvalid", "message": "must be positive", "field": "spec.a~b/c"},
    ]
    found = told(422, "Invalid", "Pod is invalid", causes=causes)
    assert isinstance(found, problems.Invalid)
    assert [f.pointer for f in found.fields] == ["/spec/containers/0/name", "/spec/a~0b~1c"]


@pytest.mark.parametrize(
    ("text", "service"),
    [
        (
            'failed calling webhook "mservice.elbv2.k8s.aws": failed to call webhook: Post '
            '"https://aws-load-balancer-webhook-service.kube-system.svc:443/mutate-v1-service?timeout=10s": '
            'no endpoints available for service "aws-load-balancer-webhook-service"',
            "kube-system/aws-load-balancer-webhook-service",
        ),
        (
            'failed calling webhook "w": failed to call webhook: Post "https://hook.ns.svc:443/x?timeout=10s": context deadline exceeded',
            "ns/hook",
        ),
        ('failed calling webhook "w": Post "https://hook.ns.svc:443/x": x509: certificate signed by unknown authority', "ns/hook"),
    ],
)
def test_a_webhook_that_sleeps_is_transient_and_named(text: str, service: str) -> None:
    found = told(500, "InternalError", f"Internal error occurred: {text}")
    assert isinstance(found, problems.Busy)
    assert found.code == "kubernetes.webhook_not_ready"
    assert found.evidence["webhook_service"] == service


def test_a_disruption_budget_is_named() -> None:
    found = told(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        causes=[{"reason": "DisruptionBudget", "message": "The disruption budget coredns needs 1 healthy pods and has 1 currently"}],
    )
    assert found.code == "kubernetes.disruption_budget"


def test_a_throttled_request_says_when_to_come_back() -> None:
    found = told(429, "TooManyRequests", "Too many requests, please try again later.", {"retry-after": "7"})
    assert isinstance(found, problems.Busy)
    assert found.retry_after_seconds == 7


def test_an_expired_list_is_told_from_other_trouble() -> None:
    assert told(410, "Expired", "The provided continue parameter is too old").code == "kubernetes.expired"


def test_a_status_inside_a_good_answer_keeps_its_own_code() -> None:
    body = json.dumps({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (2)"}).encode()
    assert errors.from_response(500, body, {}, call()).code == "kubernetes.expired"


@pytest.mark.parametrize(
    "body",
    [
        b"404 page not found\n",
        b'{"kind":"Status","code":404,"reason":"NotFound","details":{},"message":"the server could not find the requested resource"}',
    ],
)
def test_a_kind_that_is_not_served_is_told_from_an_absent_object(body: bytes) -> None:
    assert errors.from_response(404, body, {}, call(path="/apis/ray.io/v1/rayjobs")).code == "kubernetes.kind_not_served"


def test_an_absent_object_is_not_found() -> None:
    assert told(404, "NotFound", 'pods "a" not found', name="a", kind="pods").code == "kubernetes.not_found"


def test_an_existing_object_is_a_conflict() -> None:
    assert told(409, "AlreadyExists", 'pods "a" already exists', name="a").code == "kubernetes.already_exists"


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_trouble_inside_the_server_is_transient(code: int) -> None:
    assert errors.from_response(code, b"<html>bad gateway</html>", {}, call()).kind == "busy"


def test_an_answer_nobody_expects_is_our_fault() -> None:
    assert told(415, "UnsupportedMediaType", "the body of the request was in an unknown format").kind == "broken"


def test_a_strangers_certificate_is_told_from_a_dead_cluster() -> None:
    error = httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    error.__cause__ = ssl.SSLCertVerificationError("certificate verify failed")
    assert errors.from_transport(error, call()).code == "kubernetes.certificate_not_trusted"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (httpx2.ConnectError("refused"), "kubernetes.unreachable"),
        (httpx2.ConnectTimeout("timed out"), "kubernetes.unreachable"),
        (httpx2.ReadTimeout("timed out"), "kubernetes.no_answer"),
        (httpx2.ReadError("reset"), "kubernetes.connection_lost"),
    ],
)
def test_no_answer_is_neither_yes_nor_no(error: Exception, code: str) -> None:
    found = errors.from_transport(error, call())
    assert isinstance(found, problems.Unreachable)
    assert found.code == code
