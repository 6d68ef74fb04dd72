"""One place that derives every name and tag from a cluster's tag, within every limit, without collisions.

Limits (aws-facts A1.1, A5, A7): IAM role 64, HyperPod cluster 63, instance group 63, bucket 63, EKS cluster 100,
CloudFormation stack 128, Kubernetes object 63. IAM and S3 names are global, so they carry a digest of account and
region too.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import secrets
from dataclasses import dataclass

from instantstart.base import problems

TAG_LIMIT = 100
TAG_PATTERN = r"^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$"
_DIGEST = 8

CLUSTER_TAG = "instantstart.dev/cluster"
OPERATION_TAG = "instantstart.dev/operation"
ROLE_TAG = "instantstart.dev/role"
#: policies of the HyperPod training operator and observability only see clusters that carry it
SAGEMAKER_TAG = "SageMaker"


def check_tag(tag: str) -> problems.Violation | None:
    """What is wrong with a cluster tag, or None. The same rule through every door."""
    if not tag:
        return problems.Violation("/tag", "A cluster needs a tag of 1 to 100 characters.")
    if len(tag) > TAG_LIMIT:
        return problems.Violation("/tag", f"A tag has at most {TAG_LIMIT} characters; this one has {len(tag)}.")
    if not re.fullmatch(TAG_PATTERN, tag, re.ASCII):
        better = suggest(tag)
        told = "A tag has letters a-z, digits, '-', '_' and '.', and begins and ends with a letter or digit."
        return problems.Violation("/tag", f"{told} For example: {better}" if better else told)
    return None


def suggest(tag: str) -> str:
    """The nearest valid tag, or an empty string when nothing of it can be kept."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", tag, flags=re.ASCII).strip("-._")[:TAG_LIMIT].strip("-._")


def generate_tag(today: dt.date) -> str:
    """A new tag such as ``hypd-1130-k3f9``: the month and day, and enough chance to differ."""
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"
    return f"hypd-{today:%m%d}-" + "".join(secrets.choice(alphabet) for _ in range(4))


def slug(tag: str, limit: int) -> str:
    """``tag`` in lower-case letters, digits and single hyphens, at most ``limit`` long.

    A tag that had to be changed gets 8 hexadecimal digits of its own digest, so two tags never share a slug.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", tag.lower()).strip("-")
    looks_digested = re.search(r"-[0-9a-f]{8}$", plain) is not None
    if plain == tag and len(plain) <= limit and not looks_digested:
        return plain
    digest = hashlib.sha256(tag.encode()).hexdigest()[:_DIGEST]
    return f"{plain[: limit - _DIGEST - 1].rstrip('-')}-{digest}".lstrip("-")


_LABEL_LIMIT = 63
_SERVICE_LIMIT = 50


def label_value(text: str) -> str:
    """``text`` as a label value of Kubernetes: as it is where it may be, else what can be kept of it with a digest of all of it.

    Two texts never share a value: ``org/model`` and ``org-model`` differ, and so do two that differ only in case or beyond the limit.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text, flags=re.ASCII).strip("-._")
    looks_digested = re.search(r"-[0-9a-f]{8}$", plain) is not None
    if plain == text and 0 < len(plain) <= _LABEL_LIMIT and not looks_digested:
        return plain
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    return f"{plain[: _LABEL_LIMIT - _DIGEST - 1].rstrip('-._')}-{digest}".lstrip("-")


def service_name(text: str) -> str:
    """``text`` as the name of a Service (a DNS label that begins with a letter), short enough for what is derived from it.

    As it is where it may be; else with a digest, so that two texts never share a name.
    """
    found = slug(text, _SERVICE_LIMIT)
    if found and found[0].isalpha():
        return found
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    kept = found.removesuffix(f"-{digest}").removesuffix(digest)
    return "-".join(part for part in ("m", kept[: _SERVICE_LIMIT - _DIGEST - 3].rstrip("-"), digest) if part)


@dataclass(frozen=True)
class Names:
    """Every name of one cluster. Pure: the same tag, region and account give the same names for ever."""

    tag: str
    region: str
    account: str

    def _fit(self, prefix: str, suffix: str, limit: int) -> str:
        return prefix + slug(self.tag, limit - len(prefix) - len(suffix)) + suffix

    def _global(self, prefix: str, suffix: str, limit: int) -> str:
        place = hashlib.sha256(f"{self.account}/{self.region}".encode()).hexdigest()[:6]
        return self._fit(prefix, f"-{place}{suffix}", limit)

    @property
    def eks_cluster(self) -> str:
        return self._fit("eks-", "", 100)

    @property
    def stack(self) -> str:
        return self._fit("instantstart-", "-eks", 128)

    @property
    def hyperpod_cluster(self) -> str:
        return self._fit("hp-", "", 63)

    @property
    def execution_role(self) -> str:
        return self._global("instantstart-", "-node", 64)

    @property
    def s3_csi_role(self) -> str:
        return self._global("instantstart-", "-s3csi", 64)

    @property
    def eks_role(self) -> str:
        return self._global("instantstart-", "-eks", 64)

    @property
    def scripts_bucket(self) -> str:
        """Begins with ``sagemaker-``: the managed node policy reads only such buckets."""
        return self._global("sagemaker-", "-lcs", 63)

    @property
    def data_bucket(self) -> str:
        return self._global("instantstart-", "-data", 63)

    @property
    def training_operator_role(self) -> str:
        return self._global("instantstart-", "-training", 64)

    @property
    def fsx_csi_role(self) -> str:
        return self._global("instantstart-", "-fsxcsi", 64)

    @property
    def keda_role(self) -> str:
        return self._global("instantstart-", "-keda", 64)

    @property
    def load_balancer_role(self) -> str:
        return self._global("instantstart-", "-alb", 64)

    @property
    def inference_role(self) -> str:
        """AWS's policy of the inference operator hands over only roles that begin so (facts A8.3)."""
        return self._global("SageMakerHyperPodInference-", "", 64)

    @property
    def gated_model_role(self) -> str:
        return self._global("SageMakerHyperPodInference-", "-gated", 64)

    @property
    def observability_role(self) -> str:
        return self._global("instantstart-", "-metrics", 64)

    @property
    def checkpoint_role(self) -> str:
        return self._global("instantstart-", "-ckpt", 64)

    @property
    def karpenter_role(self) -> str:
        """The cluster role with which HyperPod scales for Karpenter."""
        return self._global("instantstart-", "-karpenter", 64)

    @property
    def mlflow_role(self) -> str:
        return self._global("instantstart-", "-mlflow", 64)

    @property
    def mlflow_server_role(self) -> str:
        """What tracking servers and apps themselves act as; the one above is their clients'."""
        return self._global("instantstart-", "-mlflowsrv", 64)

    @property
    def mlflow(self) -> str:
        """The usual name of a tracking server or app."""
        return self._fit("instantstart-", "", 63)

    def roles(self) -> tuple[str, ...]:
        """Every role that may be made for the cluster outside its stack: a deletion looks for each."""
        stacked = "eks_role"
        return tuple(getattr(self, name) for name in sorted(vars(Names)) if name.endswith("_role") and name != stacked)

    @property
    def tls_bucket(self) -> str:
        """AWS's policy of the inference operator reads and writes only buckets that begin so (facts A13)."""
        return self._global("hyperpod-tls-", "", 63)

    @property
    def metrics_workspace(self) -> str:
        """The alias of the Prometheus workspace (at most 100 characters)."""
        return self._fit("instantstart-", "", 100)

    @property
    def persistent_volume(self) -> str:
        return self._fit("instantstart-", "-s3", 63)

    def compute_subnet(self, zone: str) -> str:
        return f"hp-compute-{zone}"

    def tags(self) -> dict[str, str]:
        """The tags on everything we make for this cluster."""
        return {CLUSTER_TAG: self.tag}
