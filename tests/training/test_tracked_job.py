"""The whole way: a training job's pod logs to the app under the service account that was made for it, and the run is in the history."""

from __future__ import annotations

import textwrap

import pytest
from tests.clusters.worlds import SandboxProcess
from tests.training.stands import TAG, Stand
from tests.training.tracked import HERE, Tracked

from instantstart.capabilities.training.mlflow import views
from instantstart.capabilities.training.mlflow.views import Asked
from instantstart.ensure.mlflow.tracking import SERVICE_ACCOUNT, TrackingKind
from instantstart_sandbox.services.mlflow import processes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(processes.interpreter() is None, reason=processes.ABSENT),
]

#: what a training script does, with nothing but Python: MLflow's REST API at the address that the job was given
SCRIPT = textwrap.dedent("""
    import json, os, time, urllib.request
    def call(path, body):
        url = os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/" + path
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=30))
    name = os.environ["MLFLOW_EXPERIMENT_NAME"]
    experiment = call("experiments/create", {"name": name})["experiment_id"]
    tags = [{"key": k, "value": v} for k, v in json.loads(os.environ.get("MLFLOW_TAGS", "{}")).items()]
    now = int(time.time() * 1000)
    made = call("runs/create", {"experiment_id": experiment, "start_time": now, "run_name": "from-a-pod", "tags": tags})
    run = made["run"]["info"]["run_id"]
    metrics = [{"key": "tokens_per_second", "value": 100.0 + step, "timestamp": now + step, "step": step} for step in range(5)]
    call("runs/log-batch", {"run_id": run, "metrics": metrics})
    call("runs/update", {"run_id": run, "status": "FINISHED", "end_time": now + 1000})
    print("recorded", run, flush=True)
""")


def test_a_jobs_run_is_in_the_history(cluster: Stand, shared_sandbox: SandboxProcess) -> None:
    shared_sandbox.admin("settings", mlflow_serves=True)
    tracked = Tracked(cluster.job, None)  # type: ignore[arg-type]
    made = tracked.create(TrackingKind.app, HERE)
    assert made.problem is None, made.problem
    arn = made.result["tracking_uri"]
    recipe = {"framework": "container", "command": ["python3", "-c", SCRIPT]}
    told = {"uri": arn, "experiment": "pods", "tags": {"team": "a"}}
    submitted = cluster.submit("tracked", recipe=recipe, tracking=told)
    assert submitted.problem is None, submitted.problem
    detail = cluster.status("tracked", "succeeded", "running")
    assert detail.service_account == SERVICE_ACCOUNT
    ended = Asked(filter="attributes.status = 'FINISHED'")
    page = cluster.until(lambda: views.list_runs(cluster.room, TAG, ended, 10, None), lambda seen: bool(seen.items))
    (run,) = page.items
    assert (run.name, run.experiment, run.tags["team"]) == ("from-a-pod", "pods", "a")
    assert run.throughput is not None
    assert run.throughput.value == 104.0
