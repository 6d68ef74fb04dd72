"""How the container is started, and what is put into it: closed, without root, and no secret where others can read it."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy/container/Dockerfile").read_text()


@pytest.fixture
def started(tmp_path: Path) -> list[str]:
    """The arguments that start-prod.sh gives the engine."""
    engine = tmp_path / "engine"
    engine.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    engine.chmod(0o755)
    environment = {
        "PATH": os.environ["PATH"],
        "CONTAINER_ENGINE": str(engine),
        "INSTANTSTART_IMAGE": "registry.example/instantstart:1",
        "INSTANTSTART_HOST_DATA": str(tmp_path / "data"),
        "INSTANTSTART_DATABASE_URL": "postgresql://u:hunter2@db/x",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "AWS_PROFILE": "mine",
    }
    script = ROOT / "deploy/container/start-prod.sh"
    told = subprocess.run(["sh", str(script)], env=environment, capture_output=True, text=True, check=True)
    return told.stdout.splitlines()


def test_the_container_is_closed(started: list[str], tmp_path: Path) -> None:
    pairs = set(itertools.pairwise(started))
    assert {("--cap-drop", "ALL"), ("--security-opt", "no-new-privileges"), ("--user", "10001:10001")} <= pairs
    assert "--read-only" in started
    assert ("--publish", "127.0.0.1:3099:3099") in pairs
    assert "--privileged" not in started
    assert ("--network", "host") not in pairs
    assert not [each for each in started if "docker.sock" in each]
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0


def test_no_value_of_a_variable_is_in_the_process_list(started: list[str]) -> None:
    named = {after for before, after in itertools.pairwise(started) if before == "--env"}
    assert named == {"INSTANTSTART_DATABASE_URL", "AWS_SECRET_ACCESS_KEY"}
    assert "hunter2" not in " ".join(started)


def test_the_file_of_settings_is_read_to_its_end_and_strange_names_are_refused(tmp_path: Path) -> None:
    engine, file = tmp_path / "engine", tmp_path / "host.env"
    engine.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    engine.chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "CONTAINER_ENGINE": str(engine), "INSTANTSTART_HOST_DATA": str(tmp_path / "data")}
    command, more = ["sh", str(ROOT / "deploy/container/start-prod.sh")], {"INSTANTSTART_HOST_FILE": str(file)}
    file.write_text(
        "# ours\nINSTANTSTART_IMAGE=registry.example/instantstart:1\nAWS_EC2_METADATA_V1_DISABLED=true\nINSTANTSTART_REGION=us-west-2"
    )
    told = subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, check=True).stdout.splitlines()
    named = {after for before, after in itertools.pairwise(told) if before == "--env"}
    assert named == {"AWS_EC2_METADATA_V1_DISABLED", "INSTANTSTART_REGION"}
    file.write_text("INSTANTSTART_IMAGE=x\nA$(touch${IFS}broken)=x\n")
    refused = subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert refused.returncode == 1
    assert "is no name of a variable" in refused.stderr
    assert not (tmp_path / "broken").exists()


def test_the_host_reads_no_file_that_the_container_can_replace() -> None:
    unit = (ROOT / "deploy/systemd/instantstart-backup.service").read_text()
    for line in unit.splitlines():
        if line.startswith("Exec") and "/var/lib/instantstart" in line:
            assert "docker exec instantstart" in line.partition("/var/lib/instantstart")[0], line


def test_the_chart_takes_its_own_values_and_no_secret_as_a_setting() -> None:
    chart = ROOT / "deploy/helm/instantstart"
    values = yaml.safe_load((chart / "values.yaml").read_text()) | {"image": {"repository": "registry.example/instantstart"}}
    schema = Draft7Validator(json.loads((chart / "values.schema.json").read_text()))
    assert [error.message for error in schema.iter_errors(values)] == []
    for name in ("oidc_client_secret", "database_url", "data_dir", "no-such.name"):
        assert list(schema.iter_errors(values | {"settings": {name: "x"}})), name


def test_without_an_image_it_says_what_to_do(tmp_path: Path) -> None:
    script = ROOT / "deploy/container/start-prod.sh"
    told = subprocess.run(["sh", str(script)], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False)
    assert told.returncode != 0
    assert "Name the image to run" in told.stderr


def test_everything_the_image_copies_is_there() -> None:
    copies = [line.split() for line in re.sub(r"\\\n", " ", DOCKERFILE).splitlines() if line.startswith("COPY ") and "--from" not in line]
    sources = [source for line in copies for source in line[1:-1]]
    missing = [source for source in sources if not (ROOT / source).exists()]
    assert missing == []
    assert len(sources) > 10


def test_the_image_runs_without_root_and_is_looked_at() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert "\nUSER 10001:10001" in last
    assert "\nHEALTHCHECK " in last
    assert "/readyz" in last


def test_the_chart_renders_what_kubernetes_takes() -> None:
    helm = os.environ.get("INSTANTSTART_HELM") or shutil.which("helm")
    if helm is None:
        pytest.skip("there is no helm on this machine (INSTANTSTART_HELM names one)")
    chart = str(ROOT / "deploy/helm/instantstart")
    given = ["--kube-version", "1.34.0", "--set", "image.repository=registry.example/instantstart"]
    told = subprocess.run([helm, "lint", "--strict", chart, *given], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout
    rendered = subprocess.run([helm, "template", "demo", chart, *given], capture_output=True, text=True, check=True).stdout
    assert "readOnlyRootFilesystem: true" in rendered
    assert "ingress: []" in rendered
    assert "ServiceMonitor" not in rendered
    assert "OTLP" not in rendered
    watched = ["serviceMonitor.enabled=true", "serviceMonitor.tokenSecret=scraper", "traces.endpoint=http://collector:4318", "replicas=2"]
    more = [word for each in (*watched, "database.existingSecret=db", "settings.allowed_hosts=a.example") for word in ("--set", each)]
    rendered = subprocess.run([helm, "template", "demo", chart, *given, *more], capture_output=True, text=True, check=True).stdout
    documents = [each for each in yaml.safe_load_all(rendered) if each]
    monitor = next(each for each in documents if each["kind"] == "ServiceMonitor")
    scraped = [
        each for each in documents if monitor["spec"]["selector"]["matchLabels"].items() <= each["metadata"].get("labels", {}).items()
    ]
    assert [(each["kind"], each["metadata"]["name"]) for each in scraped] == [("Service", "demo-replicas")]
    container = next(each for each in documents if each["kind"] == "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    environment = [(each["name"], each.get("value")) for each in container["env"]]
    assert len({name for name, _ in environment}) == len(environment)
    values = dict(environment)
    assert values["INSTANTSTART_OTLP_ENDPOINT"] == "http://collector:4318"
    assert values["INSTANTSTART_ALLOWED_HOSTS"] == "$(INSTANTSTART_POD_ADDRESS),a.example"
    assert values["INSTANTSTART_DRAIN_SECONDS"] == "10"
    two = subprocess.run([helm, "template", "demo", chart, *given, "--set", "replicas=2"], capture_output=True, text=True, check=False)
    assert "PostgreSQL" in two.stderr
