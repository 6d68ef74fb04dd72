"""The processes themselves: how soon ready, how large, how fast."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.bench.rig import INSTANCE_TYPE, Rig

from instantstart.base import names

_STARTS = 5
_CLUSTERS, _FOREIGN = 20, 5
#: the product keeps a list for two seconds
_LIST_KEPT = 2.1
_SECONDS = 5.0


def start() -> Iterator[str]:
    """From exec to the first answer of /readyz: first on an empty folder, then again on the same."""
    with Rig(30) as rig:
        yield f"first start, making its database: {rig.product.ready_seconds:.1f} s, {rig.product.cpu_seconds():.1f} s of CPU"
        seconds, cpu = [], []
        for _ in range(_STARTS):
            rig.product.stop()
            rig.product = rig.launch()
            seconds.append(rig.product.ready_seconds)
            cpu.append(rig.product.cpu_seconds())
        told = f"best {min(seconds):.1f} s, median {statistics.median(seconds):.1f} s; CPU best {min(cpu):.1f} s"
        yield f"next {_STARTS} starts: {told} (what an idle machine takes)"


def memory() -> Iterator[str]:
    """Resident memory at rest, after a pipeline, and after an agent has been there."""
    with Rig(60) as rig:
        time.sleep(3)
        yield f"at rest after the start: {rig.product.memory_mib()[0]:.0f} MiB"
        rig.create("bench-a")
        now, most = rig.product.memory_mib()
        yield f"after a pipeline: {now:.0f} MiB (never more than {most:.0f})"
        rig.product.first_tool_call()
        yield f"after the first MCP call: {rig.product.memory_mib()[0]:.0f} MiB"


def listing() -> Iterator[str]:
    """GET /clusters in an account with twenty EKS clusters that bear our tag and five Slurm clusters of others."""
    with Rig(30) as rig:
        _populate(rig)
        cold, kept = [], []
        for _ in range(10):
            time.sleep(_LIST_KEPT)
            cold.append(_timed(lambda: rig.product.ask("GET", "/clusters?limit=200")))
            kept.append(_timed(lambda: rig.product.ask("GET", "/clusters?limit=200")))
        found = rig.product.ask("GET", "/clusters?limit=200")
        told = f"p50 {statistics.median(cold) * 1000:.0f} ms, best {min(cold) * 1000:.0f} ms"
        yield f"{found['total']} clusters, read anew: {told}; asked again within two seconds: {statistics.median(kept) * 1000:.0f} ms"


def _populate(rig: Rig) -> None:
    rig.sandbox.admin("settings", eks_create_seconds=1.0)
    trust = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
    role = rig.sandbox.client("iam").create_role(
        RoleName="bench", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    )
    time.sleep(1)  # thirty seconds of the sandbox: IAM has told the others
    subnets = [s["SubnetId"] for s in rig.sandbox.client("ec2").describe_subnets()["Subnets"]][:2]
    for i in range(_CLUSTERS):
        rig.sandbox.client("eks").create_cluster(
            name=f"eks-bench-{i:02}", roleArn=role["Role"]["Arn"], resourcesVpcConfig={"subnetIds": subnets},
            accessConfig={"authenticationMode": "API"}, tags={names.CLUSTER_TAG: f"bench-{i:02}"},
        )  # fmt: skip
    for i in range(_FOREIGN):
        rig.sandbox.admin("scenario/foreign-cluster", name=f"slurm-{i}")


def _timed(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def calls() -> Iterator[str]:
    """Calls a second that one client, and eight side by side, get answered."""
    with Rig(30) as rig:
        ec2, sagemaker = rig.sandbox.client("ec2"), rig.sandbox.client("sagemaker")
        for name, call in (
            ("ec2 DescribeVpcs (moto)", ec2.describe_vpcs),
            ("ec2 DescribeInstanceTypes", lambda: ec2.describe_instance_types(InstanceTypes=[INSTANCE_TYPE.removeprefix("ml.")])),
            ("sagemaker ListClusters (owned)", sagemaker.list_clusters),
        ):
            for clients in (1, 8):
                with ThreadPoolExecutor(clients) as pool:
                    until = time.monotonic() + _SECONDS
                    done = sum(pool.map(partial(_count, call, until), range(clients)))
                yield f"{name}, {clients} at once: {done / _SECONDS:.0f} calls/s"


def _count(call: Callable[[], object], until: float, _: int) -> int:
    done = 0
    while time.monotonic() < until:
        call()
        done += 1
    return done
