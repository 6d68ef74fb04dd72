"""Add-ons: through DEGRADED, over conflicts, with their identities."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

from .conftest import Account, code

CNI, DNS = "vpc-cni", "coredns"
TRAINING = "amazon-sagemaker-hyperpod-training-operator"


def _status(account: Account, name: str) -> str:
    return str(account.eks.describe_addon(clusterName="demo", addonName=name)["addon"]["status"])


def test_an_addon_is_degraded_until_its_pods_have_a_node(account: Account) -> None:
    account.eks_cluster()
    account.kubernetes.ready = False
    account.eks.create_addon(clusterName="demo", addonName=DNS)
    assert _status(account, DNS) == "CREATING"
    account.warp(50)
    addon = account.eks.describe_addon(clusterName="demo", addonName=DNS)["addon"]
    assert addon["status"] == "DEGRADED"
    assert addon["health"]["issues"][0]["code"] == "InsufficientNumberOfReplicas"
    account.kubernetes.ready = True
    account.warp(20)
    assert _status(account, DNS) == "ACTIVE"
    account.kubernetes.ready = False
    account.warp(70)
    assert _status(account, DNS) == "DEGRADED"


def test_a_self_managed_copy_is_a_conflict_that_overwrite_solves(account: Account) -> None:
    account.eks_cluster(bootstrapSelfManagedAddons=True)
    account.eks.create_addon(clusterName="demo", addonName=CNI)
    account.warp(50)
    addon = account.eks.describe_addon(clusterName="demo", addonName=CNI)["addon"]
    assert addon["status"] == "CREATE_FAILED"
    assert addon["health"]["issues"][0]["code"] == "ConfigurationConflict"
    with pytest.raises(ClientError) as again:
        account.eks.create_addon(clusterName="demo", addonName=CNI, resolveConflicts="OVERWRITE")
    assert code(again) == "ResourceInUseException"
    with pytest.raises(ClientError) as update:
        account.eks.update_addon(clusterName="demo", addonName=CNI)
    assert code(update) == "InvalidRequestException"
    account.eks.delete_addon(clusterName="demo", addonName=CNI)
    account.warp(40)
    account.eks.create_addon(clusterName="demo", addonName=CNI, resolveConflicts="OVERWRITE")
    account.warp(50)
    assert _status(account, CNI) == "ACTIVE"


def test_versions_fit_the_kubernetes_version(account: Account) -> None:
    account.eks_cluster(version="1.32")
    versions = account.eks.describe_addon_versions(addonName="kube-proxy", kubernetesVersion="1.32")["addons"][0]["addonVersions"]
    assert {c["clusterVersion"] for v in versions for c in v["compatibilities"]} == {"1.32"}
    assert sum(c["defaultVersion"] for v in versions for c in v["compatibilities"]) == 1
    with pytest.raises(ClientError, match="Addon version specified is not supported"):
        account.eks.create_addon(clusterName="demo", addonName="kube-proxy", addonVersion="v1.35.4-eksbuild.2")
    made = account.eks.create_addon(clusterName="demo", addonName="kube-proxy")["addon"]
    assert made["addonVersion"].startswith("v1.32.")


def test_a_configuration_is_checked_against_its_schema(account: Account) -> None:
    account.eks_cluster()
    version = account.eks.describe_addon_versions(addonName=DNS)["addons"][0]["addonVersions"][0]["addonVersion"]
    schema = json.loads(account.eks.describe_addon_configuration(addonName=DNS, addonVersion=version)["configurationSchema"])
    assert schema["properties"]["replicaCount"] == {"type": "integer"}
    for wrong in ('{"replicaCount":"two"}', '{"replicas":2}', "replicaCount: 2"):
        with pytest.raises(ClientError, match="Json schema validation failed"):
            account.eks.create_addon(clusterName="demo", addonName=DNS, configurationValues=wrong)
    account.eks.create_addon(clusterName="demo", addonName=DNS, configurationValues='{"replicaCount":3}')


def test_the_training_operator_wants_its_association_made_before(account: Account) -> None:
    account.eks_cluster()
    role = account.role("operator", "pods.eks.amazonaws.com")
    account.warp(11)
    service_account = "hp-training-operator-controller-manager"
    inline = [{"serviceAccount": service_account, "roleArn": role}]
    with pytest.raises(ClientError, match="Pod Identity feature is not supported for addon version"):
        account.eks.create_addon(clusterName="demo", addonName=TRAINING, podIdentityAssociations=inline)
    account.eks.create_pod_identity_association(clusterName="demo", namespace="aws-hyperpod", serviceAccount=service_account, roleArn=role)
    account.eks.create_addon(clusterName="demo", addonName=TRAINING)
    account.warp(50)
    assert _status(account, TRAINING) == "ACTIVE"


def test_an_addon_without_what_it_needs_fails(account: Account) -> None:
    account.eks_cluster()
    account.kubernetes.ready = False
    account.eks.create_addon(clusterName="demo", addonName=TRAINING)
    account.warp(50)
    addon = account.eks.describe_addon(clusterName="demo", addonName=TRAINING)["addon"]
    assert addon["status"] == "CREATE_FAILED"
    assert addon["health"]["issues"][0]["resourceIds"] == ["cert-manager"]


def test_associations_of_an_addon_are_its_own(account: Account) -> None:
    account.eks_cluster()
    role = account.role("ebs", "pods.eks.amazonaws.com")
    account.warp(11)
    inline = [{"serviceAccount": "ebs-csi-controller-sa", "roleArn": role}]
    name = "aws-ebs-csi-driver"
    made = account.eks.create_addon(clusterName="demo", addonName=name, podIdentityAssociations=inline)["addon"]
    account.warp(50)
    summary = account.eks.list_pod_identity_associations(clusterName="demo")["associations"][0]
    assert summary["ownerArn"] == made["addonArn"]
    with pytest.raises(ClientError):
        account.eks.delete_pod_identity_association(clusterName="demo", associationId=summary["associationId"])
    update = account.eks.update_addon(clusterName="demo", addonName=name)["update"]
    account.warp(50)
    assert account.eks.describe_update(name="demo", updateId=update["id"], addonName=name)["update"]["status"] == "Successful"
    assert len(account.eks.list_pod_identity_associations(clusterName="demo")["associations"]) == 1
    account.eks.update_addon(clusterName="demo", addonName=name, podIdentityAssociations=[])
    assert account.eks.list_pod_identity_associations(clusterName="demo")["associations"] == []


def test_the_waiter_for_deletion_ends(account: Account) -> None:
    account.eks_cluster()
    account.eks.create_addon(clusterName="demo", addonName=CNI)
    account.warp(50)
    account.eks.delete_addon(clusterName="demo", addonName=CNI)
    account.warp(40)
    account.eks.get_waiter("addon_deleted").wait(clusterName="demo", addonName=CNI, WaiterConfig={"Delay": 0, "MaxAttempts": 1})
    assert account.eks.list_addons(clusterName="demo")["addons"] == []
