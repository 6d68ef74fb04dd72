"""What is settled by what was read is not settled while it cannot be read."""

from __future__ import annotations

import pytest
from tests.training.stands import Stand

from instantstart.base import problems
from instantstart.capabilities.training.jobs import scene


def test_a_job_is_not_sized_by_hearsay_while_the_nodes_cannot_be_read(cluster: Stand) -> None:
    """A copy whose first list failed is empty: that is not a cluster without nodes, for which EC2's numbers would be taken."""
    cluster.room.kube.watching.forget(cluster.kube.ref.arn)
    cluster.sandbox.fault("kubernetes:(list|watch)/nodes", code="away", count=None)
    asked = cluster.target("hearsay")
    with pytest.raises(problems.Unreachable):
        scene.observe(cluster.room, cluster.where, asked)
    cluster.sandbox.clear()
    facts = scene.observe(cluster.room, cluster.where, asked)
    assert facts.offer is not None
    assert (facts.offer.source, len(facts.places)) == ("nodes", 2)
