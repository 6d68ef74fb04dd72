"""Identity chains, declared once as data and run both ways by chain_steps: who may act as which role, and what that role may do.

A chain is: OIDC provider (where the way is a token) -> role whose trust names the live issuer, subject and audience, or pod identity of
this very cluster -> least-privilege policies -> service account -> annotation or association -> pods that were started after it.
One way for each component, chosen here (case 29). Facts: aws-facts A8.3, A9, A13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from instantstart.ensure.capacity import karpenter
from instantstart.ensure.iam import identity, principals, trusts
from instantstart.ensure.mlflow import tracking
from instantstart.ensure.sites import Site

Statements = tuple[dict[str, Any], ...]


class Via(StrEnum):
    """How a service account gets its role."""

    annotation = "annotation"
    association = "association"


@dataclass(frozen=True)
class Account:
    """A service account of a chain. ``made``: we make it; else its component brings it. ``written``: the component annotates it itself."""

    namespace: str
    name: str
    via: Via
    made: bool = False
    written: bool = False

    @property
    def label(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Chain:
    """One role and everything that leads to it. ``remembers`` are choices of the person, kept as tags on the role."""

    name: str
    role: str
    trust: Statements
    accounts: tuple[Account, ...] = ()
    managed: tuple[str, ...] = ()
    inline: Mapping[str, Statements] = field(default_factory=dict)
    remembers: Mapping[str, str] = field(default_factory=dict)
    #: the OIDC issuer that must be registered with IAM, or None when no account goes by token
    issuer: str | None = None
    #: somebody else's work rests on the role too: it is extended, and never removed by a feature
    shared: bool = False


@dataclass(frozen=True)
class Ground:
    """What a chain is declared on: the place, the EKS cluster as told, and the person's choices (or what the role remembers of them)."""

    where: Site
    cluster: Mapping[str, Any]
    choices: Mapping[str, str] = field(default_factory=dict)

    @property
    def issuer(self) -> str:
        return str(self.cluster["identity"]["oidc"]["issuer"])

    def token(self, namespace: str, account: str) -> dict[str, Any]:
        """The trust of one account by token."""
        return trusts.web_identity(identity.provider_arn(self.where.aws, self.issuer), self.issuer, namespace, account)

    def pods(self) -> dict[str, Any]:
        """The trust of this cluster's pods by pod identity."""
        return trusts.pod_identity(str(self.cluster["arn"]), self.where.names.account)

    def arn(self, service: str, resource: str) -> str:
        """An ARN in this account and region; S3's have neither."""
        if service == "s3":
            return f"arn:{self.where.aws.partition}:s3:::{resource}"
        return self.where.aws.arn(service, resource)

    def choice(self, name: str, default: str) -> str:
        """A choice of the person, or what is usual."""
        return self.choices.get(name) or default


INFERENCE_NAMESPACE = "hyperpod-inference-system"
#: tag of a role -> the choice it remembers
REMEMBERED = "instantstart.dev/choice-"
_OBJECTS = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]


def training_operator(ground: Ground) -> Chain:
    """The operator looks up the nodes of clusters that carry SageMaker=true. Its newest add-on takes no inline association (facts A9)."""
    account = Account("aws-hyperpod", "hp-training-operator-controller-manager", Via.association)
    policy = ("AmazonSageMakerHyperPodTrainingOperatorAccess",)
    return Chain("training_operator", ground.where.names.training_operator_role, (ground.pods(),), (account,), policy)


def fsx_csi(ground: Ground) -> Chain:
    """The driver's controller makes file systems for dynamic volumes."""
    account = Account("kube-system", "fsx-csi-controller-sa", Via.association)
    return Chain("fsx_csi", ground.where.names.fsx_csi_role, (ground.pods(),), (account,), ("AmazonFSxFullAccess",))


def s3_csi(ground: Ground) -> Chain:
    """The S3 driver takes the token way (case 29). Storage adds buckets to the same policy, so the role is shared."""
    bucket = ground.arn("s3", ground.where.names.data_bucket)
    grants = (principals.allow(["s3:ListBucket"], [bucket]), principals.allow(_OBJECTS, [f"{bucket}/*"]))
    account = Account("kube-system", "s3-csi-driver-sa", Via.annotation, written=True)
    trust = (ground.token(account.namespace, account.name),)
    role = ground.where.names.s3_csi_role
    return Chain("s3_csi", role, trust, (account,), inline={"buckets": grants}, issuer=ground.issuer, shared=True)


def inference_operator(ground: Ground) -> Chain:
    """The operator itself: also SageMaker acts as it for endpoints. The add-on annotates its account from its configuration."""
    account = Account(INFERENCE_NAMESPACE, "hyperpod-inference-controller-manager", Via.annotation, written=True)
    trust = (trusts.service("sagemaker"), ground.token(account.namespace, account.name))
    policy = ("AmazonSageMakerHyperPodInferenceAccess",)
    return Chain("inference_operator", ground.where.names.inference_role, trust, (account,), policy, issuer=ground.issuer)


def gated_models(ground: Ground) -> Chain:
    """Downloads of gated JumpStart models, by accounts that the operator makes in the endpoints' namespaces."""
    trust = (trusts.service("sagemaker"), ground.token("*", "hyperpod-inference-service-account*"))
    policy = ("AmazonSageMakerHyperPodGatedModelAccess",)
    return Chain("gated_models", ground.where.names.gated_model_role, trust, (), policy, issuer=ground.issuer)


def load_balancer(ground: Ground) -> Chain:
    """The load balancer controller that the inference add-on brings."""
    account = Account(INFERENCE_NAMESPACE, "aws-load-balancer-controller", Via.annotation, written=True)
    trust = (ground.token(account.namespace, account.name),)
    role = ground.where.names.load_balancer_role
    return Chain("load_balancer", role, trust, (account,), inline={"controller": _load_balancing(ground)}, issuer=ground.issuer)


def _load_balancing(ground: Ground) -> Statements:
    """What the controller needs: reads everywhere; changes of groups and balancers that carry its own cluster tag."""
    own = {"Null": {"aws:ResourceTag/elbv2.k8s.aws/cluster": "false"}}
    asked = {"Null": {"aws:RequestTag/elbv2.k8s.aws/cluster": "false"}}
    group = ground.arn("ec2", "security-group/*")
    balancers = [ground.arn("elasticloadbalancing", f"{kind}/*") for kind in ("loadbalancer", "targetgroup", "listener", "listener-rule")]
    reads = ["ec2:Describe*", "ec2:GetCoipPoolUsage", "elasticloadbalancing:Describe*", "acm:ListCertificates", "acm:DescribeCertificate"]
    reads += ["iam:ListServerCertificates", "iam:GetServerCertificate", "cognito-idp:DescribeUserPoolClient", "wafv2:GetWebACL*"]
    makes = ["elasticloadbalancing:CreateLoadBalancer", "elasticloadbalancing:CreateTargetGroup"]
    rules = ["CreateListener", "DeleteListener", "CreateRule", "DeleteRule", "ModifyListener", "ModifyRule", "SetRulePriorities"]
    rules += ["AddListenerCertificates", "RemoveListenerCertificates", "RegisterTargets", "DeregisterTargets", "SetWebAcl"]
    changes = ["ModifyLoadBalancerAttributes", "SetIpAddressType", "SetSecurityGroups", "SetSubnets", "DeleteLoadBalancer"]
    changes += ["ModifyTargetGroup", "ModifyTargetGroupAttributes", "DeleteTargetGroup", "AddTags", "RemoveTags"]
    ingress = ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress", "ec2:DeleteSecurityGroup", "ec2:DeleteTags"]
    linked = {"StringEquals": {"iam:AWSServiceName": principals.service("elasticloadbalancing")}}
    return (
        principals.allow(reads, "*"),
        {**principals.allow(["iam:CreateServiceLinkedRole"], "*"), "Condition": linked},
        principals.allow(["ec2:CreateSecurityGroup"], "*"),
        {**principals.allow(["ec2:CreateTags"], [group]), "Condition": asked},
        {**principals.allow(ingress, [group]), "Condition": own},
        {**principals.allow(makes, "*"), "Condition": asked},
        principals.allow([f"elasticloadbalancing:{verb}" for verb in rules], "*"),
        {**principals.allow([f"elasticloadbalancing:{verb}" for verb in changes], balancers), "Condition": own},
        {**principals.allow(["elasticloadbalancing:AddTags"], balancers), "Condition": asked},
    )


def inference_keda(ground: Ground) -> Chain:
    """KEDA as the inference add-on brings it; the add-on annotates the account."""
    return _keda(ground, Account(INFERENCE_NAMESPACE, "keda-operator", Via.annotation, written=True), "inference_keda")


def keda(ground: Ground) -> Chain:
    """KEDA of our own bundle: we annotate the account that the bundle brings."""
    return _keda(ground, Account("keda", "keda-operator", Via.annotation), "keda")


def _keda(ground: Ground, account: Account, name: str) -> Chain:
    """Both read metrics only. They share a role: only one KEDA can be in a cluster (facts A18)."""
    cloudwatch = ["cloudwatch:GetMetricData", "cloudwatch:GetMetricStatistics", "cloudwatch:ListMetrics"]
    prometheus = ["aps:QueryMetrics", "aps:GetLabels", "aps:GetSeries", "aps:GetMetricMetadata"]
    grants = (principals.allow(cloudwatch, "*"), principals.allow(prometheus, [ground.arn("aps", "workspace/*")]))
    trust = (ground.token(account.namespace, account.name),)
    return Chain(name, ground.where.names.keda_role, trust, (account,), inline={"metrics": grants}, issuer=ground.issuer)


def observability(ground: Ground) -> Chain:
    """The collector writes metrics to Prometheus and logs of the cluster to CloudWatch."""
    account = Account("hyperpod-observability", "hyperpod-observability-operator-otel-collector", Via.association)
    logs = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents", "logs:GetLogEvents", "logs:FilterLogEvents"]
    logs += ["logs:DescribeLogStreams", "logs:StartQuery", "logs:GetQueryResults"]
    group = ground.arn("logs", "log-group:/aws/sagemaker/Clusters/*")
    grants = (principals.allow(["aps:RemoteWrite"], [ground.arn("aps", "workspace/*")]), principals.allow(logs, [group]))
    role = ground.where.names.observability_role
    return Chain("observability", role, (ground.pods(),), (account,), inline={"collector": grants})


def tiered_checkpointing(ground: Ground) -> Chain:
    """Training pods under this account may write checkpoints to one bucket. The memory daemon itself needs no role (facts A17)."""
    bucket = ground.choice("bucket", ground.where.names.data_bucket)
    account = Account(ground.choice("namespace", "default"), ground.choice("service_account", "tiered-checkpointing"), Via.annotation, True)
    arn = ground.arn("s3", bucket)
    grants = (
        principals.allow(["s3:ListBucket", "s3:GetBucketLocation"], [arn]),
        principals.allow(["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], [f"{arn}/*"]),
    )
    kept = {"bucket": bucket, "namespace": account.namespace, "service_account": account.name}
    trust = (ground.token(account.namespace, account.name),)
    role = ground.where.names.checkpoint_role
    return Chain("tiered_checkpointing", role, trust, (account,), (), {"checkpoints": grants}, kept, ground.issuer)


def mlflow(ground: Ground) -> Chain:
    """Training pods that log to managed MLflow: one account in each namespace, the servers and artifact folders that were chosen.

    With none chosen, all of the account's, and the cluster's data bucket.
    """
    namespaces = ground.choice("namespace", "default").split()
    servers, stores = ground.choice("servers", "").split(), ground.choice("artifacts", "").split()
    accounts = tuple(Account(namespace, tracking.SERVICE_ACCOUNT, Via.annotation, True) for namespace in namespaces)
    arns = [ground.arn("sagemaker", name) for name in servers or ("mlflow-tracking-server/*", "mlflow-app/*")]
    grants = [principals.allow(["sagemaker-mlflow:*"], arns)]
    apps = [arn for arn in arns if ":mlflow-app/" in arn]
    if apps:
        grants.append(principals.allow(["sagemaker:CallMlflowAppApi"], apps))
    for store in stores or (ground.where.names.data_bucket,):
        grants += _artifacts(ground, store)
    trust = tuple(ground.token(account.namespace, account.name) for account in accounts)
    kept = {"namespace": " ".join(namespaces)}
    kept |= {key: " ".join(values) for key, values in (("servers", servers), ("artifacts", stores)) if values}
    return Chain("mlflow", ground.where.names.mlflow_role, trust, accounts, (), {"mlflow": tuple(grants)}, kept, ground.issuer)


def _artifacts(ground: Ground, store: str) -> Statements:
    """Reading and writing below one folder of a bucket."""
    bucket, _, folder = store.partition("/")
    arn = ground.arn("s3", bucket)
    listing = principals.allow(["s3:ListBucket"], [arn])
    if not folder:
        return listing, principals.allow(["s3:GetObject", "s3:PutObject"], [f"{arn}/*"])
    below = {"StringLike": {"s3:prefix": [folder, f"{folder}/*"]}}
    return {**listing, "Condition": below}, principals.allow(["s3:GetObject", "s3:PutObject"], [f"{arn}/{folder}/*"])


def karpenter_role(ground: Ground) -> Chain:
    """The cluster role of managed Karpenter, as capacity makes it: HyperPod scales by it, and no pod has it."""
    wanted = karpenter.cluster_role(ground.where.aws, ground.where.names, None)
    inline = {name: tuple(trusts.statements(document)) for name, document in wanted.inline.items()}
    return Chain("karpenter", wanted.name, tuple(trusts.statements(wanted.trust)), (), wanted.managed, inline, shared=True)


DECLARED: Mapping[str, Callable[[Ground], Chain]] = {
    "training_operator": training_operator,
    "fsx_csi": fsx_csi,
    "s3_csi": s3_csi,
    "inference_operator": inference_operator,
    "gated_models": gated_models,
    "load_balancer": load_balancer,
    "inference_keda": inference_keda,
    "keda": keda,
    "observability": observability,
    "tiered_checkpointing": tiered_checkpointing,
    "mlflow": mlflow,
    "karpenter": karpenter_role,
}


def declare(name: str, ground: Ground) -> Chain:
    """The chain of that name on this ground."""
    return DECLARED[name](ground)


def role_names(site: Site) -> tuple[str, ...]:
    """Every role that a chain of this cluster can have, each once: what a deletion looks for."""
    told = site.names
    found = (
        told.training_operator_role, told.fsx_csi_role, told.s3_csi_role, told.inference_role, told.gated_model_role,
        told.load_balancer_role, told.keda_role, told.observability_role, told.checkpoint_role, told.mlflow_role, told.karpenter_role,
    )  # fmt: skip
    return tuple(dict.fromkeys(found))
