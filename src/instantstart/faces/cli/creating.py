"""The commands of the whole pipeline, each of its steps, and the preflight before it."""

from __future__ import annotations

from typing import Annotated

import typer

from instantstart.faces.cli import show
from instantstart.faces.cli.agreeing import Yes, begin_costly
from instantstart.faces.cli.session import TABLE, ClusterArgument, DryRun, Output, Wait, chosen_cluster, client
from instantstart.faces.cli.steps import (
    Bucket,
    Capacity,
    Checks,
    Count,
    How,
    InstanceType,
    Plan,
    Region,
    Spec,
    Tag,
    Zone,
    asked,
    begin,
    cluster_path,
)


def create(
    tag: Tag = None,
    region: Region = None,
    zone: Zone = None,
    instance_type: InstanceType = None,
    count: Count = None,
    capacity: Capacity = None,
    training_plan: Plan = None,
    bucket: Bucket = None,
    deep_health_check: Checks = None,
    file: Spec = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Make a whole cluster: EKS, dependencies, HyperPod, storage, verified."""
    body = asked(
        file, tag=tag, region=region, zone=zone, instance_type=instance_type, instance_count=count, capacity_type=capacity,
        training_plan_arn=training_plan, bucket=bucket, deep_health_checks=deep_health_check,
    )  # fmt: skip
    with client() as http:
        begin_costly(http, "/clusters", How(wait, output, dry_run), yes, body)


def eks(
    tag: Tag = None,
    region: Region = None,
    vpc_cidr: Annotated[str | None, typer.Option(help="Range of the new VPC; left out: a free one.")] = None,
    kubernetes_version: Annotated[str | None, typer.Option(help="Kubernetes minor version; left out: the newest fit one.")] = None,
    file: Spec = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Step 1: make the network and EKS."""
    body = asked(file, tag=tag, region=region, vpc_cidr=vpc_cidr, kubernetes_version=kubernetes_version)
    with client() as http:
        begin_costly(http, "/eks-clusters", How(wait, output, dry_run), yes, body)


def dependencies(
    cluster: ClusterArgument = None,
    cert_manager: Annotated[bool | None, typer.Option("--cert-manager", help="Install cert-manager too.")] = None,
    overwrite_conflicts: Annotated[
        bool | None, typer.Option("--overwrite-conflicts", help="Take over what somebody else installed.")
    ] = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Step 2: install what HyperPod needs in EKS."""
    body = asked(None, cert_manager=cert_manager, overwrite_conflicts=overwrite_conflicts)
    with client() as http:
        begin(http, "POST", cluster_path(chosen_cluster(http, cluster)) + "/dependencies", How(wait, output, dry_run), body)


def hyperpod(
    cluster: ClusterArgument = None,
    zone: Zone = None,
    instance_type: InstanceType = None,
    count: Count = None,
    capacity: Capacity = None,
    training_plan: Plan = None,
    deep_health_check: Checks = None,
    file: Spec = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Step 3: make the HyperPod cluster and its first nodes."""
    body = asked(
        file, zone=zone, instance_type=instance_type, instance_count=count, capacity_type=capacity, training_plan_arn=training_plan,
        deep_health_checks=deep_health_check,
    )  # fmt: skip
    with client() as http:
        begin_costly(http, cluster_path(chosen_cluster(http, cluster)) + "/hyperpod", How(wait, output, dry_run), yes, body)


def storage(
    cluster: ClusterArgument = None,
    bucket: Bucket = None,
    prefix: Annotated[str | None, typer.Option(help="Only this folder of the bucket; ends with a slash.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Kubernetes namespace of the claim.")] = None,
    file: Spec = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Step 4: mount an S3 bucket as a volume claim."""
    with client() as http:
        body = asked(file, bucket=bucket, prefix=prefix, namespace=namespace)
        begin(http, "POST", cluster_path(chosen_cluster(http, cluster)) + "/storage/s3", How(wait, output, dry_run), body)


def preflight(
    tag: Tag = None,
    region: Region = None,
    zone: Zone = None,
    instance_type: InstanceType = None,
    count: Count = None,
    capacity: Capacity = None,
    training_plan: Plan = None,
    file: Spec = None,
    output: Output = TABLE,
) -> None:
    """Check what would stand in the way of a cluster; nothing is changed. Exit status 1 when something would."""
    body = asked(
        file,
        tag=tag,
        region=region,
        zone=zone,
        instance_type=instance_type,
        instance_count=count,
        capacity_type=capacity,
        training_plan_arn=training_plan,
    )
    with client() as http:
        report = http.call("POST", "/preflight", body=body)
    if output is not TABLE:
        show.data(report, output)
    else:
        show.rows(report["findings"], {"CHECK": "check", "LEVEL": "level", "FINDING": "detail", "HINT": "hint"}, output)
    raise typer.Exit(0 if report["ready"] else 1)
