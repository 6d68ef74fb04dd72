"""Crowds for measurements: served like any other objects, and left alone by the controllers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ensure.clusters import ARN, Aws

from instantstart.kube.client import KubeCluster
from instantstart.kube.connect import ClusterRef, KubeGateway
from instantstart_sandbox.kubernetes import controllers
from instantstart_sandbox.kubernetes.server import KubernetesServer
from instantstart_sandbox.world.clock import Clock


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KubernetesServer]:
    """A server with controllers."""
    made = KubernetesServer(tmp_path, Clock(60.0), Aws(), controllers.start_controllers)
    yield made
    made.close()


def test_a_crowd_is_served_and_stays(server: KubernetesServer) -> None:
    endpoint = server.create_cluster(ARN, "demo", "us-west-2", "1.33")
    gateway = KubeGateway(lambda _: "admin-token")
    kube: KubeCluster = gateway.cluster(ClusterRef(ARN, "demo", "us-west-2", endpoint.url, endpoint.ca_pem))
    asked = {"nodes": 30, "pods": 160, "waiting": 5, "groups": 3}
    while not (told := server.populate(ARN, asked))["done"]:
        time.sleep(0.01)
    assert told["written"] == 190
    nodes, pods = kube.list("Node"), kube.list("Pod", fields="status.phase=Running")
    assert (len(nodes), len(pods)) == (30, 155)
    assert len({n["metadata"]["labels"]["sagemaker.amazonaws.com/instance-group-name"] for n in nodes}) == 3
    kube.patch("Pod", "worker-0-000000", {"metadata": {"labels": {"seen": "yes"}}}, namespace="default")
    kube.patch("Node", nodes[0]["metadata"]["name"], {"spec": {"unschedulable": True}})  # what a node's controller would react to
    assert server.populate(ARN, asked) == told
    assert len(kube.list("Node")) == 30
    assert server.cluster(ARN).crashes == []
    gateway.close()


def test_a_cluster_that_is_not_there_cannot_be_filled(server: KubernetesServer) -> None:
    with pytest.raises(ValueError, match="there is no cluster"):
        server.populate("arn:none", {"nodes": 1, "pods": 1})
