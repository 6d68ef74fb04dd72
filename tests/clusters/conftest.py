"""One sandbox for all tests of this room, an empty account for each, the product's own room, and the engine turned by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest
from botocore.retries.standard import ExponentialBackoff
from tests.aws import ledgers
from tests.clusters.crank import Crank, Turned
from tests.clusters.worlds import REGION, SandboxProcess, bundles

from instantstart import main
from instantstart.base.settings import Settings
from instantstart.capabilities.clusters import specs, workflows
from instantstart.capabilities.room import Room
from instantstart.capabilities.vocabulary import Target
from instantstart.ensure import sites
from instantstart.ensure.sites import Site
from instantstart_sandbox.world.settings import Settings as Weather

TYPE, ZONE = "ml.g5.8xlarge", "usw2-az2"


@pytest.fixture(scope="session")
def shared_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProcess]:
    """Started once: virtual time goes at the pace of the wall and by warp."""
    made = SandboxProcess(tmp_path_factory.mktemp("world"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def shared_room(shared_sandbox: SandboxProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """The product's rooms around it, composed as in the process; the engine is not launched."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in shared_sandbox.environment().items():
            patch.setenv(name, value)
        # botocore's pauses between its own tries are real seconds; the tries stay, the pauses go
        patch.setattr(ExponentialBackoff, "delay_amount", lambda self, context: 0.0)
        made = main.compose(
            Settings(data_dir=tmp_path_factory.mktemp("house"), bundles_dir=bundles(), region=REGION, hub_url=shared_sandbox.hub)
        )
        yield made
        made.kube.close()
        made.store.close()


#: the same world with shorter waits: its order and its unkindness stay, the looks that see nothing new are fewer
QUICK = {
    "eks_create_seconds": 60.0,
    "eks_delete_seconds": 40.0,
    "cluster_create_seconds": 40.0,
    "cluster_delete_seconds": 30.0,
    "node_running_seconds": 30.0,
    "node_delete_seconds": 20.0,
    "nat_gateway_seconds": 20.0,
    # no process behind a tracking server: it would come up in real seconds
    "mlflow_serves": False,
    # every answer is held against the service model
    "check_answers": True,
}


@pytest.fixture
def sandbox(shared_sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxProcess]:
    """An empty account in fair weather. No call of a test may crash it, or be one that it does not know."""
    for name, value in shared_sandbox.environment().items():  # another folder's tests may have pointed elsewhere meanwhile
        monkeypatch.setenv(name, value)
    shared_sandbox.clear()
    shared_sandbox.admin("settings", **{**Weather().dump(), **QUICK})
    shared_sandbox.admin("reset")
    yield shared_sandbox
    shared_sandbox.clear()
    ledgers.check(shared_sandbox)


@pytest.fixture
def room(shared_room: Room, sandbox: SandboxProcess) -> Room:
    """The room on the empty account, with nothing remembered of the test before."""
    for aws in shared_room.aws._regions.values():
        aws._kept.clear()
    for row in shared_room.store.clusters.list():
        shared_room.store.clusters.delete(row.tag)
    return shared_room


@pytest.fixture
def crank(room: Room, sandbox: SandboxProcess) -> Crank:
    """The engine, by hand."""
    return Crank(room, sandbox)


def asked(kind: type[Any], tag: str, region: str = REGION, **more: Any) -> Any:
    """The spec of an operation, with its defaults (which a type checker does not see inside Annotated)."""
    return kind(tag=tag, region=region, **more)


@dataclass
class Job:
    """The main job, asked for as the door would ask."""

    crank: Crank
    tag: str = "demo"
    region: str = REGION
    zone: str = ZONE

    def target(self, **more: Any) -> specs.ClusterTarget:
        """What cluster.create is asked."""
        fields = {"zone": self.zone, "instance_type": TYPE} | more
        return cast("specs.ClusterTarget", asked(specs.ClusterTarget, self.tag, self.region, **fields))

    def create(self, until: str | None = None, **more: Any) -> Turned:
        """cluster.create, to its end or until a stage is done."""
        return self.crank.run(workflows.CREATE_CLUSTER, self.target(**more), until)

    def delete(self, **more: Any) -> Turned:
        """cluster.delete, to its end."""
        return self.crank.run(workflows.DELETE_CLUSTER, asked(specs.DeleteTarget, self.tag, self.region, **more))

    @property
    def site(self) -> Site:
        """Where the cluster lives, and every derived name."""
        return sites.site(self.crank.room, Target(tag=self.tag, region=self.region))


@pytest.fixture
def job(crank: Crank) -> Job:
    """The main job with the tag ``demo``."""
    return Job(crank)
