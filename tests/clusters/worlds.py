"""A sandbox process that a test may steer, kill and start again, and what an account holds, told without ids."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from tests.aws import ledgers
from tests.clusters import forks, holdings
from tests.clusters.holdings import listed

ROOT = Path(__file__).parents[2]
REGION = "us-west-2"
ZONES = ("usw2-az1", "usw2-az2", "usw2-az3")
READY_SECONDS = 90.0
_ID = re.compile(r"\b([a-z]+(?:-[a-z]+)?)-[0-9a-f]{8,32}\b")
_ISSUER = re.compile(r"(id/)[0-9A-F]{32}|(ComputeSecurityGroup-)[A-Za-z0-9]+")


class SandboxProcess:
    """``instantstart-sandbox serve`` as a child. Its port stays the same when it is killed and started again."""

    def __init__(self, folder: Path, rate: float = 1.0) -> None:
        self.folder, self.rate, self.port = folder, rate, 0
        self.child: forks.Fork | None = None
        self._clients: dict[tuple[str, str], Any] = {}

    def start(self) -> None:
        """Start it, or start it again on the saved state."""
        arguments = ["serve", "--port", str(self.port), "--data", str(self.folder / "sandbox"), "--rate", str(self.rate)]
        log = self.folder / "sandbox.log"
        self.child = forks.start("instantstart_sandbox", arguments, log)
        wait_for(log, '"ready": true', self.child)
        told = json.loads((self.folder / "sandbox" / "credentials.json").read_text())
        self.endpoint = str(told["endpoint_url"])
        self.port = int(self.endpoint.rsplit(":", 1)[1])
        self.keys = (str(told["access_key_id"]), str(told["secret_access_key"]))

    def kill(self) -> None:
        """SIGKILL: nothing is saved, nothing is said. Its ledgers, which die with it, are looked at before."""
        assert self.child is not None
        self.hold()
        self.child.kill()
        self.child.wait()

    def lose_machine(self) -> None:
        """SIGKILL of its own, right after it has saved: AWS forgets nothing that it has answered."""
        assert self.child is not None
        self.hold()
        with contextlib.suppress(OSError, http.client.HTTPException):  # nobody is left to answer
            self.admin("snapshot", die=True)
        self.child.wait(timeout=60)

    def stop(self) -> None:
        """End it in peace, once its ledgers are looked at."""
        if self.child is not None and self.child.poll() is None:
            try:
                self.hold()
            finally:
                self.child.terminate()
                try:
                    self.child.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    self.child.kill()

    def hold(self) -> None:
        """The wall around every test that speaks to it: its ledgers must be empty whenever they are about to be forgotten."""
        ledgers.check(self)

    @property
    def hub(self) -> str:
        """Where its stand-in of the model hub is."""
        return f"{self.endpoint}/_hub"

    def environment(self, region: str = REGION) -> dict[str, str]:
        """What points boto3 at it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "INSTANTSTART_HUB_URL": self.hub,
            "AWS_ACCESS_KEY_ID": self.keys[0],
            "AWS_SECRET_ACCESS_KEY": self.keys[1],
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
        }

    def admin(self, verb: str, *, method: str = "POST", **body: Any) -> Any:
        """One verb of the admin door."""
        if verb == "reset":
            self.hold()
        query = "?" + "&".join(f"{k}={v}" for k, v in body.items()) if method == "GET" and body else ""
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(f"{self.endpoint}/_sandbox/{verb}{query}", data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{verb}: {error.read().decode()}") from error

    def ask(self, verb: str, **query: Any) -> Any:
        """One reading verb of the admin door."""
        return self.admin(verb, method="GET", **query)

    def warp(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.admin("warp", seconds=seconds)

    def fault(self, match: str, **fields: Any) -> int:
        """Bad weather over ``service:Operation``; the rule's id."""
        return int(self.admin("fault", match=match, **fields)["id"])

    def clear(self) -> None:
        """Fair weather."""
        self.admin("faults/clear")

    def client(self, service: str, region: str = REGION) -> Any:
        """A boto3 client of the account's administrator."""
        if (service, region) not in self._clients:
            self._clients[service, region] = boto3.client(
                service,
                region_name=region,
                endpoint_url=self.endpoint,
                aws_access_key_id=self.keys[0],
                aws_secret_access_key=self.keys[1],
                config=Config(retries={"max_attempts": 4}, read_timeout=60, s3={"addressing_style": "path"}),
            )
        return self._clients[service, region]

    def calls(self, since: int = 0) -> list[dict[str, Any]]:
        """The journal: calls of clients, not of the sandbox's own services."""
        return [entry for entry in self.ask("journal", since=since) if not entry["internal"]]

    def last_call(self) -> int:
        """The number of the newest call."""
        return max((entry["seq"] for entry in self.ask("journal")), default=0)


def wait_for(log: Path, sign: str, child: subprocess.Popen[str] | forks.Fork, times: int = 1) -> None:
    """Until ``sign`` stands in the log of a child."""
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        if log.exists() and log.read_text().count(sign) >= times:
            return
        assert child.poll() is None, log.read_text()[-2000:]
        time.sleep(0.05)
    raise AssertionError(f"{sign!r} never came: {log.read_text()[-2000:]}")


def inventory(sandbox: SandboxProcess, region: str = REGION) -> list[str]:
    """Everything in the account that a person would see, one line each, ids taken out: two equal lists are two equal worlds."""
    lines = [*_network(sandbox, region), *_compute(sandbox, region), *_bought(sandbox, region), *_global(sandbox, region)]
    lines += holdings.held(lambda service: sandbox.client(service, region))
    return sorted(_ISSUER.sub("*", _ID.sub(r"\1-*", line)) for line in lines)


def _named(tags: Any) -> str:
    found = {t["Key"]: t["Value"] for t in tags or ()}
    return f"name={found.get('Name')} cluster={found.get('instantstart.dev/cluster')}"


def _network(sandbox: SandboxProcess, region: str) -> Iterable[str]:
    ec2 = sandbox.client("ec2", region)
    vpcs = listed(ec2, "describe_vpcs", "Vpcs")
    ours = [{"Name": "vpc-id", "Values": [v["VpcId"] for v in vpcs if not v.get("IsDefault")] or ["vpc-none"]}]
    yield from (f"vpc {v['CidrBlock']} {_named(v.get('Tags'))}" for v in vpcs if not v.get("IsDefault"))
    for subnet in listed(ec2, "describe_subnets", "Subnets", Filters=ours):
        yield f"subnet {subnet['CidrBlock']} {subnet['AvailabilityZoneId']} {_named(subnet.get('Tags'))}"
    for table in listed(ec2, "describe_route_tables", "RouteTables", Filters=ours):
        routes = sorted(f"{r.get('DestinationCidrBlock')}>{_target(r)}" for r in table["Routes"])
        ties = sum(not a.get("Main") for a in table["Associations"])
        yield f"route-table {_named(table.get('Tags'))} routes={routes} subnets={ties}"
    for group in listed(ec2, "describe_security_groups", "SecurityGroups", Filters=ours):
        if group["GroupName"] != "default":
            rules = len(group["IpPermissions"]), len(group["IpPermissionsEgress"])
            yield f"security-group {group['GroupName']} rules={rules} {_named(group.get('Tags'))}"
    yield from _gateways(ec2)


def _gateways(ec2: Any) -> Iterable[str]:
    for gateway in listed(ec2, "describe_internet_gateways", "InternetGateways"):
        yield f"internet-gateway {_named(gateway.get('Tags'))}"
    for nat in listed(ec2, "describe_nat_gateways", "NatGateways"):
        if nat["State"] not in ("deleted", "deleting"):
            yield f"nat-gateway {nat['State']} {_named(nat.get('Tags'))}"
    for address in listed(ec2, "describe_addresses", "Addresses"):
        yield f"address {'in use' if address.get('AssociationId') else 'free'}"
    for endpoint in listed(ec2, "describe_vpc_endpoints", "VpcEndpoints"):
        yield f"endpoint {endpoint['ServiceName']} tables={len(endpoint.get('RouteTableIds', []))}"
    for interface in listed(ec2, "describe_network_interfaces", "NetworkInterfaces"):
        yield f"interface {interface['Status']} {interface['InterfaceType']}"


def _target(route: dict[str, Any]) -> str:
    return next((str(route[k]).split("-")[0] for k in ("GatewayId", "NatGatewayId") if route.get(k)), "?")


def _compute(sandbox: SandboxProcess, region: str) -> Iterable[str]:
    stacks, eks, sagemaker = (sandbox.client(s, region) for s in ("cloudformation", "eks", "sagemaker"))
    for stack in listed(stacks, "describe_stacks", "Stacks"):
        yield f"stack {stack['StackName']} {stack['StackStatus']}"
    for name in listed(eks, "list_clusters", "clusters"):
        told = eks.describe_cluster(name=name)["cluster"]
        yield f"eks {name} {told['status']} {told['version']} {told.get('tags', {}).get('instantstart.dev/cluster')}"
        for addon in listed(eks, "list_addons", "addons", clusterName=name):
            yield f"addon {name}/{addon} {eks.describe_addon(clusterName=name, addonName=addon)['addon']['status']}"
        for entry in listed(eks, "list_access_entries", "accessEntries", clusterName=name):
            yield f"access-entry {name}/{entry}"
        yield from holdings.of_eks(eks, name)
    for cluster in listed(sagemaker, "list_clusters", "ClusterSummaries"):
        name = cluster["ClusterName"]
        nodes = listed(sagemaker, "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=name)
        statuses = sorted(node["InstanceStatus"]["Status"] for node in nodes)
        yield f"hyperpod {name} {cluster['ClusterStatus']} nodes={statuses}"
        for group in sagemaker.describe_cluster(ClusterName=name).get("InstanceGroups", []):
            shown = {k: v for k, v in group.items() if k not in ("CurrentCount", "Status", "ExecutionRole")}
            yield f"group {name}/{group['InstanceGroupName']} {json.dumps(shown, sort_keys=True, default=str)}"


def _bought(sandbox: SandboxProcess, region: str) -> Iterable[str]:
    for plan in listed(sandbox.client("sagemaker", region), "list_training_plans", "TrainingPlanSummaries"):
        yield f"training-plan {plan['TrainingPlanName']} {plan['Status']}"
    for system in listed(sandbox.client("fsx", region), "describe_file_systems", "FileSystems"):
        yield f"file-system {system['FileSystemType']} {system['Lifecycle']} {system['StorageCapacity']} {_named(system.get('Tags'))}"


def _global(sandbox: SandboxProcess, region: str) -> Iterable[str]:
    iam, s3 = sandbox.client("iam", region), sandbox.client("s3", region)
    for role in listed(iam, "list_roles", "Roles"):
        if not role["Path"].startswith("/aws-service-role/"):
            policies = listed(iam, "list_attached_role_policies", "AttachedPolicies", RoleName=role["RoleName"])
            attached = sorted(policy["PolicyName"] for policy in policies)
            inline = sorted(listed(iam, "list_role_policies", "PolicyNames", RoleName=role["RoleName"]))
            yield f"role {role['RoleName']} {attached} {inline} {holdings.of_role(role)}"
    for provider in listed(iam, "list_open_id_connect_providers", "OpenIDConnectProviderList"):
        yield f"oidc {provider['Arn']}"
    for bucket in listed(s3, "list_buckets", "Buckets"):
        keys = sorted(o["Key"] for o in listed(s3, "list_objects_v2", "Contents", Bucket=bucket["Name"]))
        yield f"bucket {bucket['Name']} {keys}"
        yield f"guards-of {bucket['Name']} {holdings.of_bucket(s3, bucket['Name'])}"


def bundles() -> Path:
    """The stand-in bundles that the sandbox brings."""
    import instantstart_sandbox

    return Path(str(instantstart_sandbox.__file__)).parent / "bundles"


def environment_without_aws() -> dict[str, str]:
    """This process's environment without what points at an account or configures the product."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "INSTANTSTART_"))}
