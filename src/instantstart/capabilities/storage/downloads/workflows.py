"""What can be done with downloads: the table of contents of this slice. Declarations only."""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.storage.downloads import specs, stages
from instantstart.operations.declare import Stage, Workflow

DOWNLOAD_MODEL = Workflow(
    "model.download",
    "Download a model",
    specs.DownloadTarget,
    specs.subject,
    (
        Stage("inspect", stages.inspect, "Find the repository and pin its commit", within=minutes(15), typical=3),
        Stage("transfer", stages.transfer, "Fetch its files into the volume", within=minutes(24 * 60), typical=600),
    ),
)
CANCEL_DOWNLOAD = Workflow(
    "download.cancel",
    "Cancel a download",
    specs.CancelTarget,
    specs.cancel_subject,
    (Stage("job", stages.remove_job, "End the job", within=minutes(15), typical=10),),
)

WORKFLOWS = (DOWNLOAD_MODEL, CANCEL_DOWNLOAD)
