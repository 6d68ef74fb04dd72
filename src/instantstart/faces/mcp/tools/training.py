"""Tools for training jobs, logs and what MLflow recorded."""

from __future__ import annotations

from instantstart.faces.mcp.tool import PLANNED_WHERE, Area, Shape, begins, costs, ends, reads, removes

TOOLS = (
    reads("training_job_list", "List training jobs with status and why those that wait do.", Area.training),
    reads("training_job_get", "Show one training job: pods, recovery budget used, events, why it does not run.", Area.training),
    reads("training_job_preview", "Show the exact objects, arguments and findings of a job; changes nothing.", Area.training),
    reads("training_recipe_list", "List what a job can run, by framework, with every field.", Area.training),
    reads("training_log_rules_try", "Try log rules on sample log text; changes nothing.", Area.training),
    begins(
        "training_job_submit",
        "Submit a training job. Look at dry_run=true first: its findings say what is in the way. The operation ends when the "
        "job runs; the job's own end is in training_job_get.",
        Area.training,
    ),
    begins("training_job_resubmit", "Submit a job once more, under the next free name unless said otherwise.", Area.training),
    ends("training_job_delete", f"End a training job. {PLANNED_WHERE}", Area.training),
    reads("mlflow_list", "List MLflow tracking servers and apps, and whether training pods reach them, link by link.", Area.training),
    reads("training_experiments", "List experiments that MLflow recorded.", Area.training, Shape.recorded),
    reads(
        "training_runs",
        "List training runs that MLflow recorded: parameters, latest metrics, throughput; filter in MLflow's words.",
        Area.training,
        Shape.recorded,
    ),
    reads("training_run_get", "Show one recorded training run.", Area.training, Shape.recorded),
    reads("training_runs_compare", "Compare recorded runs: what differs first.", Area.training, Shape.recorded),
    reads("training_run_metrics", "Show metrics of recorded runs over their steps.", Area.training, Shape.recorded),
    costs(
        "mlflow_server_create",
        "Create an MLflow tracking server (up to 25 minutes, paid by the hour) that training pods may log to.",
        Area.training,
    ),
    begins("mlflow_app_create", "Create an MLflow app (minutes) that training pods may log to.", Area.training),
    begins("mlflow_access_grant", "Let training pods of some namespaces log to a tracking server or app.", Area.training),
    begins(
        "mlflow_share",
        "Copy complete runs into MLflow of another account. First call with dry_run=true: what its role must allow.",
        Area.training,
    ),
    removes(
        "mlflow_delete",
        "Delete a tracking server or app with all it recorded.",
        Area.training,
    ),
)
