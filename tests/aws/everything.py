"""Every workflow, and every read of the door, once: what the product can be made to ask of AWS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.aws import capacity_calls
from tests.aws.acting import ROLE, composed, make_role
from tests.clusters.crank import Crank, Turned
from tests.clusters.strangers import Stranger
from tests.clusters.worlds import SandboxProcess

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
from instantstart.ensure.sites import Site

TYPE = "ml.g5.8xlarge"
ALL = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


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
        capacity_calls.instance_groups(self)
        capacity_calls.training_plans(self)
        self.look_at()
        self.delete()
        self.step_by_step()
        self.delete()
        self.imported()
        self.delete()

    def run(self, workflow: Any, kind: Any, **asked: Any) -> Turned:
        """One workflow to its end. Asserts that it succeeded."""
        return self.act(workflow, kind(tag=self.tag, region=self.region, **asked))

    def act(self, workflow: Any, target: Any) -> Turned:
        """The same for a target that has no cluster."""
        done = self.crank.run(workflow, target)
        self.told += [f"{workflow.name} {stage}: {learned!r}" for stage, learned in done.learned.items()]
        self.told += [f"{workflow.name} {stage}: {text}" for stage, text in done.said]
        assert done.status == "succeeded", (workflow.name, done.stopped_at, done.problem)
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
        )

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
        switches = dict.fromkeys(
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
