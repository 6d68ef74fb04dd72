"""The templates of the product: clean for cfn-lint, and undone without a trace wherever they fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sandbox.cloudformation.conftest import Bench, bench

from instantstart_sandbox.services.cloudformation.template import load

__all__ = ["bench"]

ROOT = Path(__file__).parents[2]
TEMPLATES = [*sorted(ROOT.glob("src/instantstart/**/templates/*.yaml")), *sorted(ROOT.glob("deploy/cloudformation/*.yaml"))]
EKS = ROOT / "src/instantstart/ensure/templates/eks.yaml"
NAMES = sorted(load(EKS.read_text())["Resources"])


@pytest.mark.slow
@pytest.mark.parametrize("region", ["us-west-2", "us-gov-west-1", "cn-north-1"])
def test_cfn_lint_finds_nothing(region: str) -> None:
    command = [
        sys.executable,
        "-c",
        "from cfnlint.runner import main; main()",
        "--format",
        "json",
        "--regions",
        region,
        "--include-checks",
        "I",
        "--",
        *map(str, TEMPLATES),
    ]
    told = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert TEMPLATES
    assert [(f["Rule"]["Id"], f["Message"], f["Location"]["Start"]) for f in json.loads(told.stdout or "[]")] == []
    assert told.returncode == 0, told.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("name", "when"), [*((name, "after") for name in NAMES), ("Cluster", "before"), ("NatGateway", "before")])
def test_a_failure_at_any_resource_is_undone(bench: Bench, name: str, when: str) -> None:
    zones = [z["ZoneName"] for z in bench.client("ec2").describe_availability_zones()["AvailabilityZones"]][:2]
    versions = bench.client("eks").describe_cluster_versions()["clusterVersions"]
    version = next(v["clusterVersion"] for v in versions if v["defaultVersion"])
    values = {"ClusterName": "eks-demo", "ClusterRoleName": "demo", "KubernetesVersion": version, "Zone1": zones[0], "Zone2": zones[1]}
    before = bench.leftovers()
    bench.world.faults.add(match=f"cloudformation:.*/{name}/Create", code="GeneralServiceException", message="asked for", when=when)
    stack = bench.cfn.create_stack(
        StackName="eks",
        TemplateBody=EKS.read_text(),
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()],
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )
    assert bench.run("eks") == "ROLLBACK_COMPLETE"
    assert bench.first_failure("eks")["LogicalResourceId"] == name
    assert bench.leftovers() == before
    bench.cfn.delete_stack(StackName="eks")
    assert bench.run(stack["StackId"]) == "DELETE_COMPLETE"
