"""Backup and restore by the very commands of docs/how-to/deploy.md, on both databases, with an operation under way.

``pytest tests/deploy/test_backups.py -m slow``
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from tests.breach.ground import RATE, Sandbox
from tests.clusters.conftest import QUICK
from tests.clusters.worlds import SandboxProcess, environment_without_aws
from tests.databases import database_url, postgres_server  # noqa: F401 - fixtures
from tests.deploy.replicas import Balancer, Replica

from instantstart_sandbox.world.settings import Settings as Weather

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "deploy.md"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def commands(*words: str) -> list[str]:
    """The lines of the page's consoles that begin with one of these words, without what they say of themselves."""
    lines = [line.removeprefix("$ ").partition("  #")[0].strip() for line in PAGE.read_text().splitlines() if line.startswith("$ ")]
    return [line for line in lines if any(re.match(rf"{word}\b", line) for word in words)]


def run(line: str, replica: Replica, folder: Path) -> None:
    """A line of the page in a shell, as the operator types it."""
    bin_folder = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {"INSTANTSTART_DATA_DIR": str(replica.folder / "data"), **replica.settings, "PATH": bin_folder}
    ran = subprocess.run(
        ["bash", "-euc", line], cwd=folder, env={**environment_without_aws(), **settings}, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, (line, ran.stdout, ran.stderr)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[SandboxProcess]:
    """An empty account."""
    made = Sandbox(tmp_path / "world", RATE)
    made.start()
    made.admin("settings", **{**Weather().dump(), **QUICK, "eks_create_seconds": 900.0})
    yield made
    made.stop()


@pytest.fixture
def replica(tmp_path: Path, sandbox: SandboxProcess, database_url: str | None) -> Iterator[Replica]:  # noqa: F811
    """A process on the database of the turn."""
    made = Replica(tmp_path, "instantstart-0", sandbox, {"INSTANTSTART_DATABASE_URL": database_url} if database_url else {})
    made.start()
    yield made
    if made.child is not None and made.child.poll() is None:
        made.stop()


def enters(replica: Replica, token: str) -> bool:
    """Whether a token opens the door."""
    answer = httpx2.get(f"{replica.url}/api/v1/me", headers={"Authorization": f"Bearer {token}"}, timeout=60)
    assert answer.status_code in (200, 401)
    return answer.status_code == 200


def lines_of(replica: Replica) -> tuple[list[str], list[str]]:
    """The page's lines for backing up and for restoring this database."""
    if "INSTANTSTART_DATABASE_URL" in replica.settings:
        return commands("pg_dump"), commands("psql", "pg_restore")
    backup, restore = commands("instantstart database")
    return [backup], [restore]


def test_what_was_backed_up_is_there_again_and_goes_on(replica: Replica, sandbox: SandboxProcess, tmp_path: Path) -> None:
    """The operation under way goes on from there and finds what was made since; nothing is made twice."""
    backup, restore = lines_of(replica)
    assert backup
    assert restore
    balancer = Balancer((replica,), (replica.folder / "data" / "admin-token").read_text().strip())
    kept = balancer.call("POST", "/tokens", {"name": "before", "role": "viewer", "kind": "person"})["token"]
    operation = balancer.call("POST", "/eks-clusters", {"tag": "demo"})["id"]
    balancer.until(operation, lambda seen: any(stage["status"] == "waiting" for stage in seen["stages"]))
    for line in backup:
        run(line, replica, tmp_path)
    lost = balancer.call("POST", "/tokens", {"name": "after", "role": "viewer", "kind": "person"})["token"]
    assert balancer.rest(operation)["status"] == "succeeded"
    replica.stop()
    _foreign_table(replica)
    for line in restore:
        run(line, replica, tmp_path)
    replica.start()
    assert enters(replica, kept)
    assert not enters(replica, lost)
    assert balancer.rest(operation)["status"] == "succeeded"
    made: list[dict[str, Any]] = [call for call in sandbox.calls(0) if call["operation"] == "CreateStack" and not call["error"]]
    assert len(made) == 1
    assert _tables(replica) == []


def _foreign_table(replica: Replica) -> None:
    """What a newer version would have made, which the backup does not know."""
    url = replica.settings.get("INSTANTSTART_DATABASE_URL")
    if url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE public.of_a_newer_version (id int)")


def _tables(replica: Replica) -> list[Any]:
    url = replica.settings.get("INSTANTSTART_DATABASE_URL")
    if not url:
        return []
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT 1 FROM pg_tables WHERE tablename = 'of_a_newer_version'").fetchall()


def test_the_page_names_the_commands_that_are_tried_here() -> None:
    assert [line.split()[0] for line in commands("pg_dump", "psql", "pg_restore")] == ["pg_dump", "psql", "pg_restore"]
