"""Jobs of HyperPod's operator, submitted, followed, read, ended, in the sandbox: its controller is real, and so are the pods' processes."""

from __future__ import annotations

import pytest
from tests.training.stands import Stand, hello, sleeper

from instantstart.base import problems
from instantstart.capabilities.training.jobs import plans


def test_a_job_is_submitted_runs_and_succeeds_and_its_name_is_refused_versioned_or_replaced(cluster: Stand) -> None:
    made = cluster.submit("first", recipe=sleeper())
    assert made.problem is None, (made.problem, made.said[-4:])
    assert made.result["status"] == "running"
    told = cluster.get("first")
    assert (told.job.status, told.job.framework, told.job.nodes, told.job.made_here) == ("running", "container", 1, True)
    assert told.budget is not None
    assert (told.budget.retries.limit, told.budget.retries.left, told.budget.full_restarts.limit) == (5, 5, 1)
    assert [pod.phase for pod in told.pods] == ["Running"]
    with pytest.raises(problems.Conflict) as refused:
        plans.checked(cluster.room, cluster.where, cluster.target("first", recipe=hello("again")))
    assert refused.value.code == "training_job.exists"
    second = cluster.submit("first", recipe=hello("x"), if_exists="version")
    assert second.learned["check"]["name"] == "first-2"
    assert cluster.status("first-2", "succeeded").job.status == "succeeded"
