"""Jobs and downloads that the scenarios ask for. A job's pods are simulated, a download's are processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart.capabilities.storage.downloads import objects
from instantstart.capabilities.storage.downloads.specs import DownloadTarget
from instantstart.capabilities.training.jobs import plans, specs

if TYPE_CHECKING:
    from tests.weather.ground import Ground

#: goes on until it is ended
JOB: dict[str, Any] = {
    "name": "llm",
    "image": "busybox:1",
    "recipe": {"framework": "container", "command": ["sleep", "1d"], "direct": True},
}
MODEL, LARGE_MODEL = {"repository": "sandbox/tiny-model"}, {"repository": "sandbox/large-model"}
#: how much of it has come when it is cancelled is a matter of real seconds
FETCHED = r"'models/sandbox/large-model/[^']*'(, )?"


def end(ground: Ground) -> dict[str, Any]:
    """That job, as the door would put it to its end."""
    told = specs.JobTarget(tag=ground.tag, region=ground.site.aws.region, kind="pytorch", namespace="default", name="llm", uid="")
    return plans.prepare_end(ground.room, ground.site, told).target.model_dump()


def slow_hub(ground: Ground) -> None:
    """The hub gives its files so slowly that a person may think better of it."""
    ground.sandbox.admin("hub", mode="slow", count=1000)


def download(ground: Ground) -> dict[str, Any]:
    """The job that fetches the large model."""
    spec = DownloadTarget.model_validate({"tag": ground.tag, "region": ground.site.aws.region, **LARGE_MODEL})
    return {"namespace": spec.namespace, "job": objects.Wanted(spec, {}, "", "").name, "operation_id": "{operation_id}"}
