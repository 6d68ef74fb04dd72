"""Every workflow, and every read of the door, once: what the product can be made to ask of AWS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from tests.aws import capacity_calls, feature_calls, tracking_calls
from tests.aws.acting import ROLE, composed, make_role
from tests.clusters.crank import Crank, Turned
from tests.clusters.strangers import Stranger
from tests.clusters.worlds import SandboxProcess
from tests.weather import scenarios
from tests.weather.ground import Ground

from instantstart import main
from instantstart.base import names
from instantstart.capabilities.capacity.nodes import views as nodes
from instantstart.capabilities.clusters import plans, specs, views, workflows
from instantstart.capabilities.clusters.imports import plans as import_plans
from instantstart.capabilities.clusters.imports import specs as import_specs
from instantstart.capabilities.clusters.imports import views as imports
from instantstart.capabilities.clusters.imports import workflows as import_workflows
from instantstart.capabilities.room import Room
from instantstart.capabilities.vocabulary import Target
from instantstart.ensure import sites
from instantstart.ensure.capacity import hyperpod, instances, lifecycle_logs
from instantstart.ensure.sites import Site

TYPE = "ml.g5.8xlarge"
#: the engine is turned by hand here, so the control plane says that it is not ready
_READY = "/readyz"
_WORD = re.compile(r"{(\w+)}")
#: what the paths and questions of reads name: things of the scenarios, and things that are not there
_KNOWN = {
    "group": scenarios.GROUP,
    "namespace": "default",
    "claim": scenarios.CLAIM,
    "pool": scenarios.POOL,
    "plan": "no-such-plan",
    "feature": "fsx_csi",
    "key": "no/such/object",
    "repository": "no-such-repository",
    "image": "no-such-repository:latest",
    "instance_type": "ml.p5.48xlarge",
    "kind": "tracking_server",
    "name": scenarios.MLFLOW,
    "run_id": "0123456789abcdef",
    "run": "0123456789abcdef",
    "target": "no-such-deployment",
    "identity_id": "no-such-identity",
}
#: those that a run finds in its world
_FOUND = frozenset({"cluster", "node"})
#: what stands behind a tracking server in a world that serves no MLflow
_NO_MLFLOW = "MLflow is not installed for the sandbox"
ALL = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


#: journeys' beginnings that ``step_by_step`` makes in a VPC of its own
_MADE_BEFORE = frozenset({"eks.create", "cluster.connect", "dependencies.configure", "hyperpod.create", "storage.configure"})


def reads(document: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Every GET of an OpenAPI document, and the parameters that its query must have; one operation is asked for by its own id."""
    for path, methods in document["paths"].items():
        if "get" in methods and "{operation_id}" not in path:
            yield path, [p["name"] for p in methods["get"].get("parameters", ()) if p.get("required") and p["in"] == "query"]


def nameless(document: Mapping[str, Any]) -> set[str]:
    """The words in paths and queries of reads that no run of everything could fill in."""
    wanted = {word for path, query in reads(document) for word in [*_WORD.findall(path), *query]}
    return wanted - set(_KNOWN) - _FOUND


class Here:
    """The sandbox with a region of its own: what scenarios do outside the product is done there."""

    def __init__(self, sandbox: SandboxProcess, region: str) -> None:
        self._sandbox, self._region = sandbox, region

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def client(self, service: str, region: str | None = None) -> Any:
        """A boto3 client there."""
        return self._sandbox.client(service, region or self._region)


@dataclass
class Grounds(Ground):
    """The ground of the scenarios (tests/weather) in any region."""

    region: str = ""
    zone: str = ""

    def place(self) -> dict[str, Any]:
        """What every scenario knows."""
        return {"tag": self.tag, "region": self.region, "zone": self.zone, "instance_type": TYPE}

    @property
    def site(self) -> Site:
        """Where the cluster lives."""
        return sites.site(self.room, Target(tag=self.tag, region=self.region))


class Everything:
    """Runs of all workflows in one region, by the product's room, on a sandbox that a test steers."""

    def __init__(self, room: Room, sandbox: SandboxProcess, region: str, tag: str = "demo") -> None:
        self.room, self.sandbox, self.region, self.tag = room, sandbox, region, tag
        self.crank = Crank(room, sandbox)
        #: every answer of ours, as text
        self.told: list[str] = []
        zones = sandbox.client("ec2", region).describe_availability_zones()["AvailabilityZones"]
        self.zones = [z["ZoneId"] for z in zones]

    @property
    def site(self) -> Site:
        """Where the cluster lives, and every derived name."""
        return sites.site(self.room, Target(tag=self.tag, region=self.region))

    def all(self) -> None:
        """Every workflow, and every read."""
        self.look()
        self.whole()
        self.look_at()
        capacity_calls.instance_groups(self)
        capacity_calls.training_plans(self)
        feature_calls.features(self)
        self.delete()
        self.imported()
        self.delete()
        self.step_by_step()
        self.journey()

    def journey(self) -> None:
        """Every other workflow of every slice, by the scenarios: a new workflow is in them or the build fails (tests/weather)."""
        sandbox: Any = Here(self.sandbox, self.region)
        ground = Grounds(sandbox, self.room, self.tag, region=self.region, zone=self.zones[1])
        for each in scenarios.journey():
            if each.workflow in _MADE_BEFORE:
                continue
            if each.workflow == "cluster.delete":
                tracking_calls.recorded(self)
                self.look_at()
                self.read_all()
            self._keep(each.workflow, ground.run(each))

    def read_all(self) -> None:
        """Every GET of the API, about things that are there or not: none may fail on our side."""
        app = main.application(self.room)
        main.first_admin(self.room)
        secret = (self.room.settings.data_dir / main.ADMIN_FILE).read_text().strip()
        client = TestClient(app, base_url="http://127.0.0.1:3099", raise_server_exceptions=False)
        nodes = self.sandbox.client("sagemaker", self.region).list_cluster_nodes(ClusterName=self.site.hyperpod_cluster)
        known = _KNOWN | {"cluster": self.tag, "node": nodes["ClusterNodeSummaries"][0]["InstanceId"]}
        for path, query in reads(app.openapi()):
            headers = {"Authorization": f"Bearer {secret}"}
            answer = client.get(path.format_map(known), params={name: known[name] for name in query}, headers=headers)
            assert answer.status_code < 500 or _NO_MLFLOW in answer.text or path == _READY, (path, answer.text)
            self.told.append(answer.text)

    def _keep(self, name: str, done: Turned) -> None:
        self.told += [f"{name} {stage}: {learned!r}" for stage, learned in done.learned.items()]
        self.told += [f"{name} {stage}: {text}" for stage, text in done.said]
        assert done.status == "succeeded", (name, done.stopped_at, done.problem)

    def run(self, workflow: Any, kind: Any, **asked: Any) -> Turned:
        """One workflow to its end. Asserts that it succeeded."""
        return self.act(workflow, kind(tag=self.tag, region=self.region, **asked))

    def act(self, workflow: Any, target: Any) -> Turned:
        """The same for a target that has no cluster."""
        done = self.crank.run(workflow, target)
        self._keep(workflow.name, done)
        return done

    def look(self) -> None:
        """Every read of the door that needs no cluster."""
        self.tell(
            views.list_zones(self.room, self.region, TYPE),
            views.list_instance_types(self.room, self.region, self.zones[0], "g5.", False),
            views.list_clusters(self.room, "tester", self.region, "", 50, None),
            plans.preflight(self.room, specs.RunPreflight(tag=self.tag, region=self.region, **self.group())),
        )

    def look_at(self) -> None:
        """Every read of the door about a cluster."""
        self.tell(
            views.list_clusters(self.room, "tester", self.region, "", 50, None),
            views.get_cluster(self.room, "tester", self.tag),
            nodes.list_nodes(self.room, self.tag, nodes.Filters(), 100, None),
            views.list_events(self.room, self.tag, 50),
            views.observe_steps(self.room, self.site),
            plans.plan_dependencies(self.room, self.site),
            plans.plan_delete(self.room, self.site, True),
            *self.script_logs(),
        )

    def script_logs(self) -> list[Any]:
        """What a diagnosis reads of nodes whose script failed: here it did not, and wrote nevertheless."""
        where = self.site
        cluster = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
        assert cluster is not None
        return [lifecycle_logs.read(where.aws, cluster, i.group, i.key) for i in list(instances.read(where.aws, cluster))[:1]]

    def tell(self, *answers: Any) -> None:
        """Remember answers of ours."""
        self.told += [repr(answer) for answer in answers]

    def group(self) -> dict[str, Any]:
        """One instance group."""
        return {"zone": self.zones[0], "instance_type": TYPE}

    def whole(self, **more: Any) -> Turned:
        """The main job in one go."""
        done = self.run(workflows.CREATE_CLUSTER, specs.ClusterTarget, **self.group(), **more)
        assert done.result["verified"]
        return done

    def step_by_step(self) -> None:
        """The main job in its five parts, in a VPC that was there before, with a bucket that was there before."""
        vpc, subnets = self.make_vpc()
        bucket = f"training-data-{self.region}"
        placed = {"CreateBucketConfiguration": {"LocationConstraint": self.region}}
        self.sandbox.client("s3", self.region).create_bucket(Bucket=bucket, **placed)
        self.run(workflows.CREATE_EKS, specs.EksTarget, vpc_id=vpc, subnet_ids=subnets)
        self.run(workflows.CONNECT, specs.ConnectTarget)
        self.run(workflows.CONFIGURE_DEPENDENCIES, specs.DependenciesTarget, cert_manager=True)
        self.run(workflows.CREATE_HYPERPOD, specs.HyperPodTarget, **self.group())
        self.run(workflows.CONFIGURE_STORAGE, specs.StorageTarget, bucket=bucket)
        self.run(workflows.VERIFY, specs.VerifyTarget)

    def imported(self) -> None:
        """A cluster of others, imported with every switch, and given nodes."""
        stranger = Stranger(self.room, self.sandbox, self.region, name="eks-research", number=70)
        stranger.eks(mode="CONFIG_MAP", plugin="v1.16.4-eksbuild.2", admitted=False)
        self.tell(imports.list_candidates(self.room, self.region))
        switches: dict[str, Any] = dict.fromkeys(
            ("make_access_entry", "set_authentication_mode", "update_network_plugin", "enable_prefix_delegation", "install_dependencies"),
            True,
        )
        ask = import_specs.ImportCluster(eks_cluster=stranger.name, region=self.region, tag=self.tag, **switches)
        target = import_plans.locate(self.room, ask)
        self.tell(import_plans.plan_import(self.room, target))
        import_plans.claim(self.room, target)
        fields = target.model_dump(exclude={"tag", "region"})
        self.run(import_workflows.IMPORT_CLUSTER, import_specs.ImportTarget, **fields)
        self.run(workflows.CREATE_HYPERPOD, specs.HyperPodTarget, **self.group())
        self.run(workflows.CONFIGURE_STORAGE, specs.StorageTarget)
        self.look_at()

    def delete(self) -> Turned:
        """The deletion, with the data."""
        return self.run(workflows.DELETE_CLUSTER, specs.DeleteTarget, delete_data=True)

    def make_vpc(self) -> tuple[str, list[str]]:
        """A network of the organisation's own: two private subnets in two zones, a way out, no endpoint for S3."""
        ec2 = self.sandbox.client("ec2", self.region)
        vpc = ec2.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"]
        ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        public, *private = (
            ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.40.{i}.0/24", AvailabilityZoneId=zone)["Subnet"]["SubnetId"]
            for i, zone in enumerate([self.zones[0], *self.zones[:2]])
        )
        table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
        ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
        ec2.associate_route_table(RouteTableId=table, SubnetId=public)
        address = ec2.allocate_address(Domain="vpc")["AllocationId"]
        ec2.create_nat_gateway(SubnetId=public, AllocationId=address)
        self.sandbox.warp(300)
        return vpc, private


def questions(sandbox: SandboxProcess) -> list[dict[str, Any]]:
    """What the role asked of IAM, itself or through CloudFormation and SageMaker."""
    mine = f":role/{ROLE}"
    return [q for q in sandbox.ask("iam_questions") if q["context"].get("aws:principalarn", [""])[0].endswith(mine)]


def asked_in_a_full_run(folder: Path) -> tuple[list[dict[str, Any]], names.Names]:
    """Every workflow in a sandbox of its own: what IAM was asked, and the names of the cluster it was asked about."""
    sandbox = SandboxProcess(folder / "world")
    sandbox.start()
    try:
        keys = make_role(sandbox, {"everything": ALL})
        sandbox.admin("settings", iam_record=True)
        with composed(keys, folder / "house") as room:
            run = Everything(room, sandbox, keys["AWS_REGION"])
            run.all()
            return questions(sandbox), run.site.names
    finally:
        sandbox.stop()
