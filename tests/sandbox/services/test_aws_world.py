"""What the Kubernetes side is told: identities, instances, add-ons, load balancers."""

from __future__ import annotations

import base64

import pytest
from botocore.exceptions import ClientError
from botocore.signers import RequestSigner

from instantstart_sandbox.services.aws_world import EmulatedAws

from .conftest import REGION, Account, code


def _token(account: Account, cluster: str) -> str:
    """An EKS token as ``aws eks get-token`` makes it."""
    client = account.client("sts")
    signer = RequestSigner(
        client.meta.service_model.service_id, REGION, "sts", "v4", client._request_signer._credentials, client.meta.events
    )
    request = {
        "method": "GET",
        "url": f"{account.endpoint}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster},
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name=REGION, expires_in=60, operation_name="")
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def test_the_creator_is_known_and_others_are_not(account: Account) -> None:
    arn = account.eks_cluster()
    aws = EmulatedAws(account.world)
    identity = aws.authenticate(arn, _token(account, "demo"))
    assert identity is not None
    assert identity.arn.endswith(":user/instantstart-admin")
    assert identity.policies == (("AmazonEKSClusterAdminPolicy", ()),)
    assert aws.authenticate(arn, _token(account, "other")) is None
    assert aws.authenticate(arn, "k8s-aws-v1.nonsense") is None
    account.eks.delete_access_entry(clusterName="demo", principalArn=identity.arn)
    assert aws.authenticate(arn, _token(account, "demo")) is None


def test_an_entry_counts_after_ten_seconds(account: Account) -> None:
    arn = account.eks_cluster(mode="API_AND_CONFIG_MAP")
    me = account.eks.list_access_entries(clusterName="demo")["accessEntries"][0]
    account.eks.delete_access_entry(clusterName="demo", principalArn=me)
    account.eks.create_access_entry(clusterName="demo", principalArn=me, kubernetesGroups=["ops"], username="me")
    aws = EmulatedAws(account.world)
    assert aws.authenticate(arn, _token(account, "demo")) is None
    account.warp(11)
    identity = aws.authenticate(arn, _token(account, "demo"))
    assert identity is not None
    assert (identity.username, identity.groups, identity.policies) == ("me", ("ops",), ())


def test_instances_join_after_they_run(hyperpod_account: Account) -> None:
    aws = EmulatedAws(hyperpod_account.world)
    taint = {"Key": "team", "Value": "a", "Effect": "NoSchedule"}
    group = hyperpod_account.group(count=1, KubernetesConfig={"Labels": {"team": "a"}, "Taints": [taint]})
    hyperpod_account.sagemaker.create_cluster(**hyperpod_account.request(group))
    assert aws.instances(hyperpod_account.eks_arn) == []
    hyperpod_account.warp(70)
    assert [(i.status, i.joined) for i in aws.instances(hyperpod_account.eks_arn)] == [("Pending", False)]
    hyperpod_account.warp(350)
    found = aws.instances(hyperpod_account.eks_arn)[0]
    assert (found.status, found.joined, found.labels, found.taints) == ("Running", True, {"team": "a"}, (("team", "a", "NoSchedule"),))
    assert found.zone.startswith(REGION)
    assert hyperpod_account.eks_arn in hyperpod_account.kubernetes.nudged
    aws.request_node_action(hyperpod_account.eks_arn, found.instance_id, "reboot")
    assert aws.instances(hyperpod_account.eks_arn)[0].status == "Pending"
    hyperpod_account.warp(200)
    aws.request_node_action(hyperpod_account.eks_arn, found.instance_id, "replace")
    hyperpod_account.warp(600)
    assert aws.instances(hyperpod_account.eks_arn)[0].instance_id != found.instance_id


def test_addons_and_self_managed_copies(account: Account) -> None:
    arn = account.eks_cluster(bootstrapSelfManagedAddons=True)
    aws = EmulatedAws(account.world)
    assert sorted(a.name for a in aws.addons(arn)) == ["coredns", "kube-proxy", "vpc-cni"]
    account.eks.create_addon(
        clusterName="demo", addonName="coredns", resolveConflicts="OVERWRITE", configurationValues='{"replicaCount":3}'
    )
    account.warp(50)
    dns = next(a for a in aws.addons(arn) if a.name == "coredns")
    assert (dns.status, dns.configuration) == ("ACTIVE", {"replicaCount": 3})


def test_a_load_balancer_holds_its_subnets_until_it_goes(account: Account) -> None:
    arn = account.eks_cluster()
    aws = EmulatedAws(account.world)
    with pytest.raises(LookupError, match="could not find any suitable subnets"):
        aws.create_load_balancer(arn, "default/web", "internal")
    account.ec2.create_tags(Resources=account.subnets, Tags=[{"Key": "kubernetes.io/role/internal-elb", "Value": "1"}])
    name = aws.create_load_balancer(arn, "default/web", "internal")
    assert aws.create_load_balancer(arn, "default/web", "internal") == name
    balancers = account.client("elbv2").describe_load_balancers()["LoadBalancers"]
    assert [(b["DNSName"], b["Type"], b["Scheme"]) for b in balancers] == [(name, "network", "internal")]
    owned = [{"Name": "tag:kubernetes.io/cluster/demo", "Values": ["owned"]}, {"Name": "group-name", "Values": ["k8s-elb-*"]}]
    group = account.ec2.describe_security_groups(Filters=owned)["SecurityGroups"][0]["GroupId"]
    with pytest.raises(ClientError) as held:
        account.ec2.delete_security_group(GroupId=group)
    assert code(held) == "DependencyViolation"
    aws.delete_load_balancer(arn, "default/web")
    assert account.client("elbv2").describe_load_balancers()["LoadBalancers"] == []
    assert account.ec2.describe_security_groups(Filters=owned)["SecurityGroups"] == []


def test_buckets_are_known(account: Account) -> None:
    aws = EmulatedAws(account.world)
    account.s3.create_bucket(Bucket="there", CreateBucketConfiguration={"LocationConstraint": REGION})
    assert aws.bucket_exists("there")
    assert not aws.bucket_exists("not-there")
