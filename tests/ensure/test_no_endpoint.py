"""A cluster that EKS is still making has no API server: that is told, not crashed on."""

from __future__ import annotations

import pytest

from instantstart.base import problems
from instantstart.ensure import eks


def test_a_cluster_in_the_making_is_unreachable_and_says_so() -> None:
    with pytest.raises(problems.Unreachable) as told:
        eks.ref({"name": "eks-demo", "arn": "arn:x:eks:r:1:cluster/eks-demo", "status": "CREATING"}, "us-west-2")
    assert told.value.code == "eks.no_endpoint"
    assert "CREATING" in told.value.detail
