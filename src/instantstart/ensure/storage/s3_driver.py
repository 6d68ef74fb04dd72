"""What the S3 driver (Mountpoint) may reach: its role by IRSA, the way it is known to take (case 29), one bucket beside another."""

from __future__ import annotations

from instantstart.base.outcome import Done, Outcome
from instantstart.ensure import eks
from instantstart.ensure.iam import identity, principals
from instantstart.ensure.installs import addons
from instantstart.ensure.sites import Site

ADDON = "aws-mountpoint-s3-csi-driver"
#: namespace and service account that its pods run as (aws-facts A8.3)
ACCOUNT = ("kube-system", "s3-csi-driver-sa")
_POLICY = "buckets"
_OBJECT_ACTIONS = ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"]


def role(where: Site, allowed: list[str]) -> identity.Role:
    """The driver's role for these buckets, with trust for the live issuer of the cluster."""
    issuer = eks.get_cluster(where.aws, where.eks_cluster)["identity"]["oidc"]["issuer"]
    trust = principals.web_identity_trust(identity.provider_arn(where.aws, issuer), issuer, *ACCOUNT)
    arns = [f"arn:{where.aws.partition}:s3:::{bucket}" for bucket in sorted(allowed)]
    document = principals.policy(principals.allow(["s3:ListBucket"], arns), principals.allow(_OBJECT_ACTIONS, [f"{arn}/*" for arn in arns]))
    return identity.Role(where.names.s3_csi_role, trust, (), {_POLICY: document}, where.boundary)


def allowed_buckets(where: Site, more: str | None = None) -> list[str]:
    """The buckets that the role reaches, with the data bucket and one more."""
    known = identity.allowed_buckets(where.aws, where.names.s3_csi_role, _POLICY)
    return sorted({where.names.data_bucket, *known, *([more] if more else [])})


def allow(where: Site, bucket: str) -> Outcome:
    """Move one step towards the driver reaching ``bucket``, beside those it already may. A driver of somebody else's keeps its own role."""
    theirs = addons.foreign_role(where.aws, where.eks_cluster, ADDON, where.tag)
    if where.imported and theirs:
        return Done(already=True, note=f"The S3 driver uses {theirs}, which is not ours: that role must be allowed {bucket}.")
    return identity.ensure_role(where.aws, role(where, allowed_buckets(where, bucket)), where.tags)
