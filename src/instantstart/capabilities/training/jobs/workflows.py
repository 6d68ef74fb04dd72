"""What can be done with training jobs: the table of contents of this slice. Declarations only."""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.training.jobs import removal, specs, stages
from instantstart.operations.declare import Stage, Workflow

SUBMIT_TRAINING_JOB = Workflow(
    "training_job.submit",
    "Submit a training job",
    specs.SubmitTarget,
    specs.subject,
    (
        Stage("check", stages.check, "Check capacity, volumes, image, accounts and names", within=minutes(15), typical=3),
        Stage("submit", stages.submit, "Make the job", within=minutes(30), typical=3),
        Stage("follow", stages.follow, "Wait until it runs", within=minutes(7 * 24 * 60), typical=120),
    ),
)
DELETE_TRAINING_JOB = Workflow(
    "training_job.delete",
    "End a training job",
    specs.JobTarget,
    specs.deletion_subject,
    (Stage("remove", removal.remove_job, "End the job and its pods", within=minutes(30), typical=30),),
    destructive=True,
)

WORKFLOWS = (SUBMIT_TRAINING_JOB, DELETE_TRAINING_JOB)
