"""Access entries, policies, pod identity associations, tags, node groups."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from instantstart_sandbox.services.eks import nodegroups

from .conftest import Account, code

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def test_the_creator_is_admin_unless_refused(account: Account) -> None:
    account.eks_cluster()
    entries = account.eks.list_access_entries(clusterName="demo")["accessEntries"]
    assert [e.rsplit("/", 1)[-1] for e in entries] == ["instantstart-admin"]
    policies = account.eks.list_associated_access_policies(clusterName="demo", principalArn=entries[0])["associatedAccessPolicies"]
    assert [p["policyArn"] for p in policies] == [ADMIN]


def test_an_entry_is_made_changed_and_removed(account: Account) -> None:
    account.eks_cluster()
    role = account.role("dev", "ec2.amazonaws.com")
    made = account.eks.create_access_entry(clusterName="demo", principalArn=role, kubernetesGroups=["devs"])["accessEntry"]
    assert made["username"].endswith("assumed-role/dev/{{SessionName}}")
    with pytest.raises(ClientError) as twice:
        account.eks.create_access_entry(clusterName="demo", principalArn=role)
    assert code(twice) == "ResourceInUseException"
    account.eks.associate_access_policy(
        clusterName="demo", principalArn=role, policyArn=ADMIN, accessScope={"type": "namespace", "namespaces": ["a"]}
    )
    assert account.eks.list_access_entries(clusterName="demo", associatedPolicyArn=ADMIN)["accessEntries"].count(role) == 1
    account.eks.update_access_entry(clusterName="demo", principalArn=role, kubernetesGroups=["ops"])
    assert account.eks.describe_access_entry(clusterName="demo", principalArn=role)["accessEntry"]["kubernetesGroups"] == ["ops"]
    account.eks.disassociate_access_policy(clusterName="demo", principalArn=role, policyArn=ADMIN)
    account.eks.delete_access_entry(clusterName="demo", principalArn=role)
    with pytest.raises(ClientError) as gone:
        account.eks.describe_access_entry(clusterName="demo", principalArn=role)
    assert code(gone) == "ResourceNotFoundException"


@pytest.mark.parametrize(
    ("principal", "groups", "sentence"),
    [
        ("arn:aws:iam::123456789012:role/nobody", [], "invalid principal"),
        ("arn:aws:iam::123456789012:user/instantstart-admin", [], "already in use"),
        ("arn:aws:sts::123456789012:assumed-role/x/y", [], "invalid principal"),
    ],
)
def test_bad_principals_are_refused(account: Account, principal: str, groups: list[str], sentence: str) -> None:
    account.eks_cluster()
    with pytest.raises(ClientError, match=sentence):
        account.eks.create_access_entry(clusterName="demo", principalArn=principal, kubernetesGroups=groups)


def test_system_groups_and_unknown_policies_are_refused(account: Account) -> None:
    account.eks_cluster()
    role = account.role("dev", "ec2.amazonaws.com")
    with pytest.raises(ClientError, match="cannot start with system:"):
        account.eks.create_access_entry(clusterName="demo", principalArn=role, kubernetesGroups=["system:masters"])
    account.eks.create_access_entry(clusterName="demo", principalArn=role)
    with pytest.raises(ClientError):
        account.eks.associate_access_policy(clusterName="demo", principalArn=role, policyArn=ADMIN + "X", accessScope={"type": "cluster"})


def test_one_association_for_each_service_account(account: Account) -> None:
    account.eks_cluster()
    role = account.role("pod", "pods.eks.amazonaws.com")
    account.warp(11)
    wish = {"clusterName": "demo", "namespace": "kube-system", "serviceAccount": "s3-csi-driver-sa", "roleArn": role}
    made = account.eks.create_pod_identity_association(**wish)["association"]
    with pytest.raises(ClientError) as twice:
        account.eks.create_pod_identity_association(**wish)
    assert code(twice) == "ResourceInUseException"
    assert made["associationId"] in str(twice.value)
    account.eks.delete_pod_identity_association(clusterName="demo", associationId=made["associationId"])
    assert account.eks.list_pod_identity_associations(clusterName="demo", namespace="kube-system")["associations"] == []


def test_a_role_for_pods_must_allow_tagging(account: Account) -> None:
    account.eks_cluster()
    role = account.role("wrong", "eks.amazonaws.com")
    account.warp(11)
    with pytest.raises(ClientError, match="Trust policy of IAM role"):
        account.eks.create_pod_identity_association(clusterName="demo", namespace="a", serviceAccount="b", roleArn=role)


def test_tags_of_a_cluster(account: Account) -> None:
    arn = account.eks_cluster(tags={"a": "1"})
    account.eks.tag_resource(resourceArn=arn, tags={"b": "2"})
    account.eks.untag_resource(resourceArn=arn, tagKeys=["a"])
    assert account.eks.list_tags_for_resource(resourceArn=arn)["tags"] == {"b": "2"}
    with pytest.raises(ClientError) as unknown:
        account.eks.list_tags_for_resource(resourceArn=arn + "x")
    assert code(unknown) == "NotFoundException"


def test_node_groups_hold_a_deletion_back(account: Account) -> None:
    arn = account.eks_cluster()
    nodegroups.seed(account.world, arn, "old", account.role("ng", "ec2.amazonaws.com"))
    assert account.eks.list_nodegroups(clusterName="demo")["nodegroups"] == ["old"]
    with pytest.raises(ClientError, match="Cluster has nodegroups attached"):
        account.eks.delete_cluster(name="demo")
    account.eks.delete_nodegroup(clusterName="demo", nodegroupName="old")
    assert account.eks.describe_nodegroup(clusterName="demo", nodegroupName="old")["nodegroup"]["status"] == "DELETING"
    account.warp(200)
    assert account.eks.delete_cluster(name="demo")["cluster"]["status"] == "DELETING"
