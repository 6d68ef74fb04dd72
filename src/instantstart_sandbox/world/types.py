"""Facts about instance types: what exists (botocore's enum), and what this account may use by default."""

from __future__ import annotations

import functools
import re

import botocore.session

#: default quota of ``ml.<type> for cluster usage`` by family; any other family has 0, as on a new account
_FAMILY_QUOTA = {"g5": 8.0, "g6": 8.0, "g6e": 4.0, "p5": 2.0, "p5en": 2.0, "c5": 16.0, "c6i": 16.0, "m5": 16.0, "t3": 16.0, "trn1": 2.0}
_SPOT_SHARE = 0.5
_NAME = re.compile(r"ml\.(?P<family>[a-z0-9-]+)\.(?P<size>\S+) for (?P<spot>spot )?cluster usage")


@functools.cache
def cluster_instance_types() -> tuple[str, ...]:
    """Every ``ml.*`` type that SageMaker's model allows in a HyperPod instance group, sorted."""
    model = botocore.session.get_session().get_service_model("sagemaker")
    return tuple(sorted(model.shape_for("ClusterInstanceType").enum))


def ec2_type(ml_type: str) -> str:
    """``ml.g5.xlarge`` -> ``g5.xlarge``."""
    return ml_type.removeprefix("ml.")


def default_cluster_quota(name: str) -> float:
    """The default of a SageMaker quota by its name."""
    found = _NAME.fullmatch(name)
    if found is None:
        return 0.0
    whole = _FAMILY_QUOTA.get(found["family"], 0.0)
    return float(int(whole * _SPOT_SHARE)) if found["spot"] else whole
