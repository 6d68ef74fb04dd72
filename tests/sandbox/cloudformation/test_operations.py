"""Updates, deletions, failures and what is left after them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import Bench

NETWORK = """
Parameters: {Cidr: {Type: String, Default: 10.0.0.0/16}, Extra: {Type: String, Default: ""}, Label: {Type: String, Default: one}}
Conditions: {HasExtra: !Not [!Equals [!Ref Extra, ""]]}
Resources:
  Vpc: {Type: AWS::EC2::VPC, Properties: {CidrBlock: !Ref Cidr, Tags: [{Key: Name, Value: !Ref Label}]}}
  Subnet: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref Vpc, CidrBlock: !Select [0, !Cidr [!Ref Cidr, 2, 8]]}}
  Group:
    Type: AWS::EC2::SecurityGroup
    Properties:
      VpcId: !Ref Vpc
      GroupDescription: nodes
      SecurityGroupIngress: [{IpProtocol: tcp, FromPort: 443, ToPort: 443, CidrIp: !Ref Cidr}]
  Second:
    Type: AWS::EC2::Subnet
    Condition: HasExtra
    Properties: {VpcId: !Ref Vpc, CidrBlock: !Ref Extra}
Outputs:
  Subnet: {Value: !Ref Subnet, Export: {Name: !Sub "${AWS::StackName}-subnet"}}
"""


def parameters(**values: str) -> list[dict[str, str]]:
    return [{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()]


def made(bench: Bench, stack: str) -> dict[str, str]:
    return {
        r["LogicalResourceId"]: r.get("PhysicalResourceId", "")
        for r in bench.cfn.describe_stack_resources(StackName=stack)["StackResources"]
    }


def create(bench: Bench, name: str = "net", template: str = NETWORK, **more: Any) -> str:
    stack_id = str(bench.cfn.create_stack(StackName=name, TemplateBody=template, **more)["StackId"])
    bench.run(name)
    return stack_id


def reasons(bench: Bench, stack: str, logical: str) -> list[tuple[str, str]]:
    return [(e["ResourceStatus"], e.get("ResourceStatusReason", "")) for e in bench.events(stack) if e["LogicalResourceId"] == logical]


def test_an_update_changes_in_place_what_it_can(bench: Bench) -> None:
    create(bench)
    before = made(bench, "net")
    with pytest.raises(ClientError, match="No updates are to be performed"):
        bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True)
    bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True, Parameters=parameters(Label="two"))
    assert bench.run("net") == "UPDATE_COMPLETE"
    assert made(bench, "net") == before
    vpc = bench.client("ec2").describe_vpcs(VpcIds=[before["Vpc"]])["Vpcs"][0]
    assert {"Key": "Name", "Value": "two"} in vpc["Tags"]
    assert not [s for s, _ in reasons(bench, "net", "Subnet") if s.startswith("UPDATE")]


def test_an_update_replaces_what_it_must_and_cleans_up_afterwards(bench: Bench) -> None:
    create(bench)
    before = made(bench, "net")
    bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True, Parameters=parameters(Cidr="10.9.0.0/16"))
    assert bench.run("net") == "UPDATE_COMPLETE"
    after = made(bench, "net")
    assert all(after[name] != before[name] for name in ("Vpc", "Subnet", "Group"))
    told = [r for s, r in reasons(bench, "net", "Vpc") if s == "UPDATE_IN_PROGRESS"]
    assert told[0] == "Requested update requires the creation of a new physical resource; hence creating one."
    history = [(e["LogicalResourceId"], e["ResourceStatus"]) for e in bench.events("net")]
    assert history.index(("Group", "UPDATE_COMPLETE")) < history.index(("Vpc", "DELETE_IN_PROGRESS"))
    assert bench.leftovers()["vpc"] == [after["Vpc"]]


def test_an_update_adds_and_removes(bench: Bench) -> None:
    create(bench)
    bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True, Parameters=parameters(Extra="10.0.9.0/24"))
    assert bench.run("net") == "UPDATE_COMPLETE"
    assert "Second" in made(bench, "net")
    bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True, Parameters=parameters(Extra=""))
    assert bench.run("net") == "UPDATE_COMPLETE"
    assert "Second" not in made(bench, "net")
    assert len(bench.leftovers()["subnet"]) == 1


@pytest.mark.parametrize("broken", ["Vpc", "Subnet", "Group", "Second"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failed_update_goes_back_to_what_was(bench: Bench, broken: str, when: str) -> None:
    create(bench)
    before, left = made(bench, "net"), bench.leftovers()
    bench.world.faults.add(match=f"cloudformation:.*/{broken}/(Create|Update)", code="Boom", message="asked for", when=when)
    new = parameters(Cidr="10.9.0.0/16", Extra="10.9.200.0/24")
    bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True, Parameters=new)
    assert bench.run("net") == "UPDATE_ROLLBACK_COMPLETE"
    assert made(bench, "net") == before
    assert bench.leftovers() == left
    told = {p["ParameterKey"]: p["ParameterValue"] for p in bench.cfn.describe_stacks(StackName="net")["Stacks"][0]["Parameters"]}
    assert told["Cidr"] == "10.0.0.0/16"
    with pytest.raises(ClientError, match="No updates are to be performed"):
        bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True)


def test_a_change_in_place_is_taken_back(bench: Bench) -> None:
    create(bench)
    bench.world.faults.add(match="cloudformation:.*/Second/Create", code="Boom", message="asked for")
    text = NETWORK.replace("FromPort: 443, ToPort: 443", "FromPort: 22, ToPort: 22")
    bench.cfn.update_stack(StackName="net", TemplateBody=text, Parameters=parameters(Label="two", Extra="10.0.9.0/24"))
    assert bench.run("net") == "UPDATE_ROLLBACK_COMPLETE"
    ids, ec2 = made(bench, "net"), bench.client("ec2")
    assert {"Key": "Name", "Value": "one"} in ec2.describe_vpcs(VpcIds=[ids["Vpc"]])["Vpcs"][0]["Tags"]
    ports = [p["FromPort"] for p in ec2.describe_security_groups(GroupIds=[ids["Group"]])["SecurityGroups"][0]["IpPermissions"]]
    assert ports == [443]


def test_stack_tags_reach_every_resource_and_change_with_an_update(bench: Bench) -> None:
    stack_id = create(bench, Tags=[{"Key": "owner", "Value": "a"}])
    bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True, Tags=[{"Key": "owner", "Value": "b"}])
    assert bench.run("net") == "UPDATE_COMPLETE"
    subnet = bench.client("ec2").describe_subnets(SubnetIds=[made(bench, "net")["Subnet"]])["Subnets"][0]
    tags = {t["Key"]: t["Value"] for t in subnet["Tags"]}
    assert tags == {
        "owner": "b",
        "aws:cloudformation:stack-name": "net",
        "aws:cloudformation:stack-id": stack_id,
        "aws:cloudformation:logical-id": "Subnet",
    }


def test_a_wrong_property_fails_only_its_resource_with_the_place(bench: Bench) -> None:
    create(bench, template=NETWORK.replace("GroupDescription", "GroupDescripton"))
    assert bench.status("net") == "ROLLBACK_COMPLETE"
    failure = bench.first_failure("net")
    assert failure["LogicalResourceId"] == "Group"
    assert failure["ResourceStatusReason"].startswith("Properties validation failed for resource Group with message:\n")
    assert "#: extraneous key [GroupDescripton] is not permitted" in failure["ResourceStatusReason"]


def test_the_limits_and_names_of_the_services_apply(bench: Bench) -> None:
    bench.client("s3").create_bucket(Bucket="taken-already", CreateBucketConfiguration={"LocationConstraint": bench.region})
    create(bench, "b", "Resources: {B: {Type: AWS::S3::Bucket, Properties: {BucketName: taken-already}}}")
    reason = bench.first_failure("b")["ResourceStatusReason"]
    assert "taken-already already exists" in reason
    assert "HandlerErrorCode: AlreadyExists" in reason
    assert bench.leftovers()["bucket"] == ["taken-already"]
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
    role = {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "r" * 65, "AssumeRolePolicyDocument": trust}}
    create(bench, "r", json.dumps({"Resources": {"R": role}}), Capabilities=["CAPABILITY_NAMED_IAM"])
    assert bench.status("r") == "ROLLBACK_COMPLETE"
    assert "64" in bench.first_failure("r")["ResourceStatusReason"]
    for _ in range(4):
        bench.client("ec2").create_vpc(CidrBlock="10.0.0.0/16")
    create(bench, "v", "Resources: {V: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}}")
    assert "The maximum number of VPCs has been reached" in bench.first_failure("v")["ResourceStatusReason"]
    assert "HandlerErrorCode: ServiceLimitExceeded" in bench.first_failure("v")["ResourceStatusReason"]


def test_generated_names_are_the_stack_the_logical_id_and_chance(bench: Bench) -> None:
    create(bench, "a-stack", "Resources: {Data: {Type: AWS::S3::Bucket}, Logs: {Type: AWS::Logs::LogGroup}}")
    names = made(bench, "a-stack")
    assert names["Data"].startswith("a-stack-data-")
    assert names["Logs"].startswith("a-stack-Logs-")
    long = "s" * 120
    create(bench, long, "Resources: {%s: {Type: AWS::S3::Bucket}}" % ("L" * 60))
    assert len(next(iter(made(bench, long).values()))) <= 63


def test_do_nothing_keeps_what_was_made_and_can_be_rolled_back_later(bench: Bench) -> None:
    before = bench.leftovers()
    bench.world.faults.add(match="cloudformation:.*/Subnet/Create", code="Boom", message="asked for")
    create(bench, OnFailure="DO_NOTHING")
    assert bench.status("net") == "CREATE_FAILED"
    assert "Group" in made(bench, "net")
    bench.cfn.rollback_stack(StackName="net")
    assert bench.run("net") == "ROLLBACK_COMPLETE"
    assert bench.leftovers() == before


def test_a_failed_creation_left_as_it_is_can_be_repaired_by_an_update(bench: Bench) -> None:
    bench.world.faults.add(match="cloudformation:.*/Subnet/Create", code="Boom", message="asked for")
    create(bench, DisableRollback=True)
    bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True)
    assert bench.run("net") == "UPDATE_COMPLETE"
    assert set(made(bench, "net")) == {"Vpc", "Subnet", "Group"}


def test_on_failure_delete_removes_the_stack(bench: Bench) -> None:
    bench.world.faults.add(match="cloudformation:.*/Subnet/Create", code="Boom", message="asked for")
    stack_id = bench.cfn.create_stack(StackName="net", TemplateBody=NETWORK, OnFailure="DELETE")["StackId"]
    assert bench.run(stack_id) == "DELETE_COMPLETE"
    assert bench.leftovers() == {}


def test_a_time_limit_ends_the_creation(bench: Bench) -> None:
    template = NETWORK + "  # a NAT gateway takes longer than a minute\n"
    nat = "  Nat: {Type: AWS::EC2::NatGateway, Properties: {ConnectivityType: private, SubnetId: !Ref Subnet}}\nOutputs:\n"
    create(bench, template=template.replace("Outputs:\n", nat), TimeoutInMinutes=1)
    assert bench.status("net") == "ROLLBACK_COMPLETE"
    assert "Stack creation time exceeded the specified timeout" in dict(reasons(bench, "net", "net"))["ROLLBACK_IN_PROGRESS"]
    assert bench.leftovers() == {}


def test_retained_resources_stay(bench: Bench) -> None:
    template = "Resources: {Keep: {Type: AWS::S3::Bucket, DeletionPolicy: Retain}, Go: {Type: AWS::S3::Bucket}}"
    stack_id = create(bench, template=template)
    keep = made(bench, "net")["Keep"]
    bench.cfn.delete_stack(StackName="net")
    assert bench.run(stack_id) == "DELETE_COMPLETE"
    assert bench.leftovers() == {"bucket": [keep]}
    assert ("DELETE_SKIPPED", "") in reasons(bench, stack_id, "Keep")


def test_a_deletion_that_fails_names_the_resource_and_can_go_on(bench: Bench) -> None:
    stack_id = create(bench)
    ids, ec2 = made(bench, "net"), bench.client("ec2")
    interface = ec2.create_network_interface(SubnetId=ids["Subnet"])["NetworkInterface"]["NetworkInterfaceId"]
    bench.cfn.delete_stack(StackName="net")
    with pytest.raises(ClientError, match="DELETE_IN_PROGRESS state and can not be updated"):
        bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True)
    assert bench.run("net") == "DELETE_FAILED"
    stack = bench.cfn.describe_stacks(StackName="net")["Stacks"][0]
    assert stack["StackStatusReason"] == "The following resource(s) failed to delete: [Subnet]. "
    assert "has dependencies and cannot be deleted" in reasons(bench, "net", "Subnet")[-1][1]
    assert reasons(bench, "net", "Vpc")[-1][0] == "CREATE_COMPLETE"
    ec2.delete_network_interface(NetworkInterfaceId=interface)
    bench.cfn.delete_stack(StackName="net")
    assert bench.run(stack_id) == "DELETE_COMPLETE"
    assert bench.leftovers() == {}


def test_a_busy_resource_is_tried_again_before_the_deletion_fails(bench: Bench) -> None:
    stack_id = create(bench)
    ids, ec2 = made(bench, "net"), bench.client("ec2")
    interface = ec2.create_network_interface(SubnetId=ids["Subnet"])["NetworkInterface"]["NetworkInterfaceId"]
    bench.cfn.delete_stack(StackName="net")
    bench.world.clock.warp(60)
    ec2.delete_network_interface(NetworkInterfaceId=interface)
    assert bench.run(stack_id) == "DELETE_COMPLETE"


def test_resources_to_retain_end_a_failed_deletion(bench: Bench) -> None:
    stack_id = create(bench, template="Resources: {B: {Type: AWS::S3::Bucket}}")
    bucket = made(bench, "net")["B"]
    bench.client("s3").put_object(Bucket=bucket, Key="x", Body=b"1")
    with pytest.raises(ClientError, match="only valid for stacks in the DELETE_FAILED state"):
        bench.cfn.delete_stack(StackName="net", RetainResources=["B"])
    bench.cfn.delete_stack(StackName="net")
    assert bench.run("net") == "DELETE_FAILED"
    assert "The bucket you tried to delete is not empty" in reasons(bench, "net", "B")[-1][1]
    bench.cfn.delete_stack(StackName="net", RetainResources=["B"])
    assert bench.run(stack_id) == "DELETE_COMPLETE"
    assert bench.leftovers() == {"bucket": [bucket]}


def test_a_protected_stack_is_not_deleted(bench: Bench) -> None:
    create(bench, EnableTerminationProtection=True)
    with pytest.raises(ClientError, match="TerminationProtection is enabled"):
        bench.cfn.delete_stack(StackName="net")
    bench.cfn.update_termination_protection(StackName="net", EnableTerminationProtection=False)
    bench.cfn.delete_stack(StackName="net")


def test_exports_are_imported_and_protected(bench: Bench) -> None:
    create(bench)
    user = "Resources: {P: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: !ImportValue net-subnet}}}"
    create(bench, "user", user)
    assert bench.status("user") == "CREATE_COMPLETE"
    assert [e["Name"] for e in bench.cfn.list_exports()["Exports"]] == ["net-subnet"]
    assert bench.cfn.list_imports(ExportName="net-subnet")["Imports"] == ["user"]
    bench.cfn.delete_stack(StackName="net")
    assert bench.run("net") == "DELETE_FAILED"
    assert "Export net-subnet cannot be deleted as it is in use by user" in reasons(bench, "net", "net")[-1][1]
    create(bench, "lost", user.replace("net-subnet", "nowhere"))
    assert "No export named nowhere found." in bench.first_failure("lost")["ResourceStatusReason"]


def test_a_change_set_creates_a_stack(bench: Bench) -> None:
    bench.cfn.create_change_set(StackName="net", ChangeSetName="first", ChangeSetType="CREATE", TemplateBody=NETWORK)
    assert bench.status("net") == "REVIEW_IN_PROGRESS"
    with pytest.raises(ClientError, match="cannot be executed in its current status"):
        bench.cfn.execute_change_set(StackName="net", ChangeSetName="first")
    bench.world.clock.warp(10)
    told = bench.cfn.describe_change_set(StackName="net", ChangeSetName="first")
    assert (told["Status"], told["ExecutionStatus"]) == ("CREATE_COMPLETE", "AVAILABLE")
    assert {c["ResourceChange"]["LogicalResourceId"]: c["ResourceChange"]["Action"] for c in told["Changes"]} == dict.fromkeys(
        ("Vpc", "Subnet", "Group"), "Add"
    )
    bench.cfn.execute_change_set(StackName="net", ChangeSetName="first")
    assert bench.run("net") == "CREATE_COMPLETE"


def test_a_change_set_tells_what_an_update_would_do(bench: Bench) -> None:
    create(bench)
    asked = {"StackName": "net", "UsePreviousTemplate": True}
    bench.cfn.create_change_set(**asked, ChangeSetName="none")
    bench.cfn.create_change_set(**asked, ChangeSetName="label", Parameters=parameters(Label="two"))
    bench.cfn.create_change_set(**asked, ChangeSetName="cidr", Parameters=parameters(Cidr="10.9.0.0/16", Extra="10.9.9.0/24"))
    bench.world.clock.warp(10)
    none = bench.cfn.describe_change_set(StackName="net", ChangeSetName="none")
    assert none["Status"] == "FAILED"
    assert "didn't contain changes" in none["StatusReason"]
    label = bench.cfn.describe_change_set(StackName="net", ChangeSetName="label")["Changes"]
    assert [(c["ResourceChange"]["LogicalResourceId"], c["ResourceChange"]["Replacement"]) for c in label] == [("Vpc", "False")]
    cidr = bench.cfn.describe_change_set(StackName="net", ChangeSetName="cidr")["Changes"]
    told = {c["ResourceChange"]["LogicalResourceId"]: (c["ResourceChange"]["Action"], c["ResourceChange"].get("Replacement")) for c in cidr}
    assert told == {
        "Vpc": ("Modify", "True"),
        "Subnet": ("Modify", "True"),
        "Group": ("Modify", "Conditional"),
        "Second": ("Add", None),
    }
    bench.cfn.execute_change_set(StackName="net", ChangeSetName="label")
    assert bench.run("net") == "UPDATE_COMPLETE"
    summaries = {s["ChangeSetName"]: s["ExecutionStatus"] for s in bench.cfn.list_change_sets(StackName="net")["Summaries"]}
    assert summaries == {"none": "OBSOLETE", "label": "EXECUTE_COMPLETE", "cidr": "OBSOLETE"}


def test_events_come_newest_first_in_pages(bench: Bench) -> None:
    many = {"Resources": {f"P{i}": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}} for i in range(40)}}
    create(bench, "many", json.dumps(many))
    first = bench.cfn.describe_stack_events(StackName="many")
    assert len(first["StackEvents"]) == 100
    second = bench.cfn.describe_stack_events(StackName="many", NextToken=first["NextToken"])
    every = first["StackEvents"] + second["StackEvents"]
    assert "NextToken" not in second
    assert len({e["EventId"] for e in every}) == len(every) == 122
    times = [e["Timestamp"] for e in every]
    assert times == sorted(times, reverse=True)
    assert every[0]["ResourceStatus"] == "CREATE_COMPLETE"
    assert len(bench.cfn.list_stack_resources(StackName="many")["StackResourceSummaries"]) == 40


def test_a_stack_can_be_deleted_while_it_is_being_made(bench: Bench) -> None:
    stack_id = bench.cfn.create_stack(StackName="net", TemplateBody=NETWORK)["StackId"]
    bench.world.clock.warp(14)
    assert bench.status("net") == "CREATE_IN_PROGRESS"
    bench.cfn.delete_stack(StackName="net")
    assert bench.run(stack_id) == "DELETE_COMPLETE"
    assert bench.leftovers() == {}


def test_an_update_that_failed_and_was_left_so_can_be_deleted_or_repaired(bench: Bench) -> None:
    for name in ("deleted", "repaired"):
        create(bench, name)
        bench.world.faults.add(match="cloudformation:.*/Subnet/Create", code="Boom", message="asked for")
        new = parameters(Cidr="10.9.0.0/16")
        bench.cfn.update_stack(StackName=name, UsePreviousTemplate=True, Parameters=new, DisableRollback=True)
        with pytest.raises(ClientError, match="cannot be deleted while in status UPDATE_IN_PROGRESS"):
            bench.cfn.delete_stack(StackName=name)
        assert bench.run(name) == "UPDATE_FAILED"
    bench.cfn.update_stack(StackName="repaired", UsePreviousTemplate=True, Parameters=parameters(Cidr="10.9.0.0/16"))
    assert bench.run("repaired") == "UPDATE_COMPLETE"
    for name in ("deleted", "repaired"):
        stack_id = bench.cfn.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
        bench.cfn.delete_stack(StackName=name)
        assert bench.run(stack_id) == "DELETE_COMPLETE"
    assert bench.leftovers() == {}


def test_dynamic_references_are_looked_up(bench: Bench) -> None:
    bench.client("ssm").put_parameter(Name="/days", Value="30", Type="String")
    bench.client("secretsmanager").create_secret(Name="who", SecretString='{"name": "ada"}')
    template = """
    Resources:
      Logs: {Type: AWS::Logs::LogGroup, Properties: {RetentionInDays: "{{resolve:ssm:/days}}"}}
      P: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: "hello {{resolve:secretsmanager:who:SecretString:name}}"}}
    """
    create(bench, "d", template)
    assert bench.status("d") == "CREATE_COMPLETE", bench.first_failure("d")
    ids = made(bench, "d")
    assert bench.client("logs").describe_log_groups()["logGroups"][0]["retentionInDays"] == 30
    assert bench.client("ssm").get_parameter(Name=ids["P"])["Parameter"]["Value"] == "hello ada"
    with pytest.raises(ClientError, match="No updates are to be performed"):
        bench.cfn.update_stack(StackName="d", UsePreviousTemplate=True)
    create(bench, "e", template.replace("/days", "/none"))
    assert "Could not resolve the dynamic reference ssm:/none" in bench.first_failure("e")["ResourceStatusReason"]


def test_a_named_resource_cannot_be_replaced_under_its_name(bench: Bench) -> None:
    template = "Resources: {Logs: {Type: AWS::Logs::LogGroup, Properties: {LogGroupName: /mine}}}"
    create(bench, template=NETWORK.replace("GroupDescription: nodes", "GroupDescription: nodes\n      GroupName: mine"))
    bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True, Parameters=parameters(Cidr="10.9.0.0/16"))
    assert bench.run("net") == "UPDATE_ROLLBACK_COMPLETE"
    assert "Rename mine and update the stack again." in bench.first_failure("net")["ResourceStatusReason"]
    create(bench, "logs", template)
    bench.cfn.update_stack(StackName="logs", TemplateBody=template.replace("/mine", "/yours"))
    assert bench.run("logs") == "UPDATE_COMPLETE"
    assert bench.leftovers()["log group"] == ["/yours"]


def test_an_update_can_be_cancelled(bench: Bench) -> None:
    create(bench)
    before, left = made(bench, "net"), bench.leftovers()
    bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True, Parameters=parameters(Cidr="10.9.0.0/16", Label="two"))
    bench.world.clock.warp(5)
    bench.cfn.cancel_update_stack(StackName="net")
    assert bench.run("net") == "UPDATE_ROLLBACK_COMPLETE"
    assert made(bench, "net") == before
    assert bench.leftovers() == left


def test_a_rollback_that_failed_goes_on_when_it_is_told_to(bench: Bench) -> None:
    create(bench)
    add = bench.world.faults.add
    add(match="cloudformation:.*/Second/Create", code="Boom", message="asked for")
    add(match="cloudformation:.*/Vpc/Update", code="Boom", message="first", when="after", count=None)
    bench.cfn.update_stack(StackName="net", UsePreviousTemplate=True, Parameters=parameters(Label="two"))
    assert bench.run("net") == "UPDATE_ROLLBACK_FAILED"
    with pytest.raises(ClientError, match="are not in UPDATE_FAILED state"):
        bench.cfn.continue_update_rollback(StackName="net", ResourcesToSkip=["Subnet"])
    bench.cfn.continue_update_rollback(StackName="net")
    assert bench.run("net") == "UPDATE_ROLLBACK_FAILED"
    bench.world.faults.clear()
    bench.cfn.continue_update_rollback(StackName="net")
    assert bench.run("net") == "UPDATE_ROLLBACK_COMPLETE"
    vpc = bench.client("ec2").describe_vpcs(VpcIds=[made(bench, "net")["Vpc"]])["Vpcs"][0]
    assert {"Key": "Name", "Value": "one"} in vpc["Tags"]


def test_a_role_that_becomes_visible_late_is_waited_for(bench: Bench) -> None:
    bench.world.settings.iam_delay = 120.0
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": trust}}
    create(bench, "r", json.dumps({"Resources": {"R": role}}), Capabilities=["CAPABILITY_IAM"])
    times = {e["ResourceStatus"]: e["Timestamp"] for e in bench.events("r") if e["LogicalResourceId"] == "R"}
    assert (times["CREATE_COMPLETE"] - times["CREATE_IN_PROGRESS"]).total_seconds() >= 120


def test_resources_are_made_with_the_rights_of_the_caller_or_of_the_role(bench: Bench) -> None:
    iam = bench.client("iam")
    user = iam.create_user(UserName="ann")["User"]["Arn"]
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "cloudformation.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
    role = iam.create_role(RoleName="maker", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    allow(iam.put_user_policy, {"UserName": "ann"}, "cloudformation:*", "iam:PassRole")
    allow(iam.put_role_policy, {"RoleName": "maker"}, "ec2:*")
    bench.world.settings.iam_enforcement = True
    ann = bench.world.client("cloudformation", bench.region, user)
    ann.create_stack(StackName="alone", TemplateBody=NETWORK)
    assert bench.run("alone") == "ROLLBACK_COMPLETE"
    assert "HandlerErrorCode: AccessDenied" in bench.first_failure("alone")["ResourceStatusReason"]
    assert "ec2:CreateVpc" in bench.first_failure("alone")["ResourceStatusReason"]
    ann.create_stack(StackName="with", TemplateBody=NETWORK, RoleARN=role)
    assert bench.run("with") == "CREATE_COMPLETE", bench.first_failure("with")


def allow(put: Any, whom: dict[str, str], *actions: str) -> None:
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]}
    put(**whom, PolicyName="p", PolicyDocument=json.dumps(document))
