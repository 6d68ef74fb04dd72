"""How the container is started, and what is put into it: closed, without root, and no secret where others can read it."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

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
