"""What others change by hand in IAM, EKS and Kubernetes is seen, told in a sentence, and put right by one repair."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

HARMLESS = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:GetCallerIdentity", "Resource": "*"}]}
)  # fmt: skip


@pytest.fixture(scope="module")
def chained(standing: Any, shared_sandbox: Any) -> Iterator[None]:
    """Three ways of a chain switched on: association, annotation of ours, annotation of our bundle."""
    from tests.features.conftest import Features

    features = Features(standing.crank, shared_sandbox, standing)
    for name in ("training_operator", "tiered_checkpointing", "keda"):
        made = features.on(name)
        assert made.status == "succeeded", (name, made.problem)
    assert features.broken() == []
    yield
    for name in ("training_operator", "tiered_checkpointing", "keda", "cert_manager"):
        assert features.off(name).status == "succeeded"


def _trust(features: Any, role: str, change: Any) -> None:
    iam = features.sandbox.client("iam")
    document = iam.get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]
    iam.update_assume_role_policy(RoleName=role, PolicyDocument=json.dumps(change(document)))


def _older_issuer(document: Any) -> Any:
    text = json.dumps(document)
    at = text.index("/id/") + 4
    return json.loads(text.replace(text[at : at + 32], "0" * 32))


def _without(key: str) -> Any:
    def change(document: Any) -> Any:
        for block in document["Statement"][0]["Condition"].values():
            for name in [n for n in block if n.endswith(key)]:
                del block[name]
        document["Statement"][0]["Condition"] = {k: v for k, v in document["Statement"][0]["Condition"].items() if v}
        return document

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [(_older_issuer, "not this cluster's"), (_without(":aud"), "no audience"), (_without(":sub"), "no service account")],
    ids=["older issuer", "no audience", "no subject"],
)
def test_a_trust_that_is_older_or_open_is_told_and_mended(features: Any, chained: None, change: Any, told: str) -> None:
    role = features.job.site.names.checkpoint_role
    _trust(features, role, change)
    view = features.read()["tiered_checkpointing"]
    assert view.state == "drifted"
    assert told in view.why
    assert features.repair("tiered_checkpointing").status == "succeeded"
    assert features.broken() == []


def test_what_others_added_to_a_role_stays_when_it_is_repaired(features: Any, chained: None) -> None:
    role, iam = features.job.site.names.checkpoint_role, features.sandbox.client("iam")
    theirs = {"Sid": "Theirs", "Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}

    def change(document: Any) -> Any:
        return {**document, "Statement": [theirs]}

    _trust(features, role, change)
    iam.put_role_policy(RoleName=role, PolicyName="theirs", PolicyDocument=HARMLESS)
    assert features.read()["tiered_checkpointing"].state == "drifted"
    assert features.repair("tiered_checkpointing").status == "succeeded"
    document = iam.get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]
    assert theirs in document["Statement"]
    assert len(document["Statement"]) == 2
    assert "theirs" in iam.list_role_policies(RoleName=role)["PolicyNames"]


def test_a_statement_of_another_issuer_is_a_warning_with_the_statement_and_is_left_alone(features: Any, chained: None) -> None:
    role, iam = features.job.site.names.checkpoint_role, features.sandbox.client("iam")
    before = iam.get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]
    ours = next(s["Principal"]["Federated"] for s in before["Statement"] if "Federated" in s["Principal"])
    provider = ours.partition("oidc-provider/")[0] + "oidc-provider/token.actions.example.com"
    condition = {"StringEquals": {"token.actions.example.com:sub": "repo:team/training"}}
    principal = {"Federated": provider}
    theirs = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRoleWithWebIdentity", "Condition": condition}
    _trust(features, role, lambda document: {**document, "Statement": [*document["Statement"], theirs]})
    view = features.read()["tiered_checkpointing"]
    assert view.state == "on"
    (told,) = [link for link in view.identity if link.link == "foreign_trust"]
    assert told.status == "warning"
    assert json.dumps(theirs, sort_keys=True) in told.detail
    assert features.repair("tiered_checkpointing").status == "succeeded"
    assert theirs in iam.get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]["Statement"]
    _trust(features, role, lambda _document: before)


def test_a_detached_policy_an_emptied_policy_and_a_gone_association_are_seen_and_mended(features: Any, chained: None) -> None:
    names, iam, eks = features.job.site.names, features.sandbox.client("iam"), features.sandbox.client("eks")
    attached = iam.list_attached_role_policies(RoleName=names.training_operator_role)["AttachedPolicies"]
    iam.detach_role_policy(RoleName=names.training_operator_role, PolicyArn=attached[0]["PolicyArn"])
    iam.put_role_policy(RoleName=names.keda_role, PolicyName="metrics", PolicyDocument=HARMLESS)
    cluster = features.job.site.eks_cluster
    listed = eks.list_pod_identity_associations(clusterName=cluster, namespace="aws-hyperpod")["associations"]
    eks.delete_pod_identity_association(clusterName=cluster, associationId=listed[0]["associationId"])
    told = features.read()
    assert (told["training_operator"].state, told["keda"].state) == ("drifted", "drifted")
    assert len(features.broken()) == 3
    mended = features.repair("training_operator", "keda")
    assert mended.status == "succeeded", (mended.problem, mended.said[-5:])
    assert features.broken() == []


def test_an_annotation_taken_away_is_put_back_and_pods_that_missed_it_are_restarted(features: Any, chained: None) -> None:
    kube = features.kube
    gone = {"metadata": {"annotations": {"eks.amazonaws.com/role-arn": None}}}
    kube.patch("ServiceAccount", "keda-operator", gone, namespace="keda")
    before = {p["metadata"]["name"] for p in kube.list("Pod", "keda")}
    for name in before:
        kube.delete("Pod", name, "keda")
    features.sandbox.warp(60)
    view = features.read()["keda"]
    assert view.state == "drifted", view
    mended = features.repair("keda")
    assert mended.status == "succeeded", (mended.problem, mended.said[-8:])
    assert features.broken() == []
    assert any("Restarted" in text for text in mended.sentences("pods").splitlines())


def test_a_registered_issuer_that_is_gone_breaks_every_chain_by_token_and_comes_back(features: Any, chained: None) -> None:
    iam = features.sandbox.client("iam")
    (provider,) = iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=provider["Arn"])
    told = features.read()
    assert {n for n, v in told.items() if v.state == "drifted"} == {"keda", "tiered_checkpointing"}
    assert features.repair("keda").status == "succeeded"
    assert features.broken() == []


def test_a_role_deleted_by_hand_is_made_again(features: Any, chained: None) -> None:
    role, iam = features.job.site.names.training_operator_role, features.sandbox.client("iam")
    for policy in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        iam.detach_role_policy(RoleName=role, PolicyArn=policy["PolicyArn"])
    iam.delete_role(RoleName=role)
    assert features.read()["training_operator"].state == "drifted"
    assert features.repair("training_operator").status == "succeeded"
    assert features.broken() == []


def test_a_service_account_deleted_by_hand_is_seen_and_made_again(features: Any, chained: None) -> None:
    features.kube.delete("ServiceAccount", "tiered-checkpointing", "default")
    view = features.read()["tiered_checkpointing"]
    assert view.state == "drifted"
    assert "no service account" in view.why
    assert features.repair("tiered_checkpointing").status == "succeeded"
    assert features.broken() == []


def test_the_chain_of_mlflow_is_made_on_demand(features: Any, chained: None) -> None:
    mended = features.repair("mlflow")
    assert mended.status == "succeeded", mended.problem
    account = features.kube.get("ServiceAccount", "sagemaker-mlflow-sa", "default")
    assert features.job.site.names.mlflow_role in account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]
