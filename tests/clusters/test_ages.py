"""How old a thing is, is told by the server: AWS's moments are of AWS's clock, and a browser's, or a sandbox's, is another one."""

from __future__ import annotations

import datetime as dt

from tests.clusters.crank import Crank
from tests.clusters.strangers import Stranger
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart.capabilities.clusters import views
from instantstart.capabilities.room import Room
from instantstart.store.records import ClusterRow


def test_a_cluster_that_was_made_in_a_faster_world_has_its_age_there(room: Room, sandbox: SandboxProcess, crank: Crank) -> None:
    Stranger(room, sandbox).eks()
    sandbox.warp(7200)
    room.aws.region(REGION)._kept.clear()
    (found,) = views.list_clusters(room, "tester", None, "", 50, None).items
    assert found.created_at is not None
    assert found.age_seconds is not None
    assert 7200 <= found.age_seconds < 9000
    assert found.created_at > dt.datetime.now(dt.UTC) - dt.timedelta(hours=1), "by the wall's clock it lies ahead, or was made just now"


def test_what_never_came_to_be_is_as_old_as_its_registration(room: Room, sandbox: SandboxProcess) -> None:
    room.store.clusters.upsert(ClusterRow(tag="never", region=REGION))
    (found,) = views.list_clusters(room, "tester", None, "", 50, None).items
    assert (found.tag, found.state) == ("never", "gone")
    assert found.age_seconds is not None
    assert 0 <= found.age_seconds < 3600
