"""The support bundle: an administrator's, useful, and without a secret of any kind."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from instantstart.base import log
from instantstart.faces.cli import main as cli

Sign = Callable[..., dict[str, str]]
SECRETS = ("hunter2", "AKIAABCDEFGHIJKLMNOP", "hf_abcdefghijklmnopqrstuvwx")


def test_it_is_an_administrators(client: TestClient, sign: Sign) -> None:
    assert client.get("/api/v1/support-bundle").status_code == 401
    assert client.get("/api/v1/support-bundle", headers=sign("operator")).status_code == 403


def test_it_tells_what_happened_and_no_secret(client: TestClient, sign: Sign, token: Callable[..., str], room: Any) -> None:
    admin = token("admin")
    headers = {"Authorization": f"Bearer {admin}"}
    made = client.post("/api/v1/clusters", headers=headers, json={"tag": "demo", "zone": "use1-az1"})
    assert made.status_code == 202, made.text
    operation = made.json()["id"]
    room.engine.move(operation, "failed", f"token {SECRETS[1]} and {SECRETS[2]} and {admin}")
    answer = client.get("/api/v1/support-bundle", headers=headers)
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert {"README.txt", "about.json", "settings.json", "clusters.json", "operations.json", "metrics.txt"} <= set(files)
    assert operation in files["operations.json"]
    assert log.redact("postgresql://u:hunter2@db/x") == "postgresql://[redacted]@db/x"  # as it would stand in settings.json
    assert json.loads(files[f"events/{operation}.json"])
    whole = "\n".join(files.values())
    assert not [secret for secret in (*SECRETS, admin) if secret in whole]


def test_the_command_writes_for_this_user_only_and_says_when_it_cannot(
    served: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("INSTANTSTART_URL", served.url)
    monkeypatch.setenv("INSTANTSTART_TOKEN", served.token("admin", "person"))
    made = tmp_path / "made.zip"
    assert cli.run(["support", "bundle", str(made)]) == 0
    assert made.stat().st_mode & 0o077 == 0
    assert "README.txt" in zipfile.ZipFile(made).namelist()
    assert cli.run(["support", "bundle", str(tmp_path / "absent" / "made.zip")]) == 2
    told = capsys.readouterr().err
    assert "file.unwritable" in told
    assert "absent" in told
