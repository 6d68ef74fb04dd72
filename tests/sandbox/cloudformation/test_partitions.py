"""The same template in three partitions: names, suffixes and ARNs follow the region."""

from __future__ import annotations

import pytest

from .conftest import Bench

TEMPLATE = """
Resources:
  Role:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        Version: 2012-10-17
        Statement: [{Effect: Allow, Principal: {Service: !Sub "ec2.${AWS::URLSuffix}"}, Action: sts:AssumeRole}]
      ManagedPolicyArns: [!Sub "arn:${AWS::Partition}:iam::aws:policy/AmazonEKSClusterPolicy"]
  Profile: {Type: AWS::IAM::InstanceProfile, Properties: {Roles: [!Ref Role]}}
  Bucket: {Type: AWS::S3::Bucket}
  Logs: {Type: AWS::Logs::LogGroup, Properties: {RetentionInDays: 7}}
  Vpc: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}
  Subnet: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref Vpc, CidrBlock: 10.0.0.0/24, AvailabilityZone: !Select [0, !GetAZs ""]}}
Outputs:
  Role: {Value: !GetAtt Role.Arn}
  Bucket: {Value: !GetAtt Bucket.Arn}
  Domain: {Value: !GetAtt Bucket.RegionalDomainName}
  Logs: {Value: !GetAtt Logs.Arn}
  Zone: {Value: !GetAtt Subnet.AvailabilityZone}
  Here: {Value: !Sub "${AWS::Region} ${AWS::AccountId} ${AWS::StackId}"}
"""


@pytest.mark.parametrize(
    ("region", "partition", "suffix"),
    [
        ("us-west-2", "aws", "amazonaws.com"),
        ("us-east-1", "aws", "amazonaws.com"),
        ("cn-north-1", "aws-cn", "amazonaws.com.cn"),
        ("us-gov-west-1", "aws-us-gov", "amazonaws.com"),
    ],
)
def test_arns_and_suffixes_follow_the_region(region: str, partition: str, suffix: str) -> None:
    bench = Bench(region)
    stack = bench.cfn.create_stack(StackName="p", TemplateBody=TEMPLATE, Capabilities=["CAPABILITY_IAM"])["StackId"]
    assert stack.startswith(f"arn:{partition}:cloudformation:{region}:")
    assert bench.run("p") == "CREATE_COMPLETE", bench.first_failure("p")
    told = {o["OutputKey"]: o["OutputValue"] for o in bench.cfn.describe_stacks(StackName="p")["Stacks"][0]["Outputs"]}
    assert told["Role"].startswith(f"arn:{partition}:iam::")
    assert told["Bucket"].startswith(f"arn:{partition}:s3:::p-bucket-")
    assert told["Domain"].endswith(f".s3.{region}.{suffix}")
    assert told["Logs"].startswith(f"arn:{partition}:logs:{region}:")
    assert told["Zone"].startswith(region)
    assert told["Here"] == f"{region} 123456789012 {stack}"
    trust = bench.client("iam").list_roles()["Roles"][0]["AssumeRolePolicyDocument"]
    assert trust["Statement"][0]["Principal"]["Service"] == f"ec2.{suffix}"
    bench.cfn.delete_stack(StackName="p")
    assert bench.run(stack) == "DELETE_COMPLETE"
    assert bench.leftovers() == {}
    assert bench.world.journal.crashes() == []
    bench.world.reset()


def test_a_stack_is_seen_only_in_its_region() -> None:
    bench = Bench("us-west-2")
    bench.cfn.create_stack(StackName="p", TemplateBody="Resources: {B: {Type: AWS::S3::Bucket}}")
    elsewhere = bench.world.client("cloudformation", "eu-west-1")
    assert elsewhere.describe_stacks()["Stacks"] == []
    elsewhere.create_stack(StackName="p", TemplateBody="Resources: {B: {Type: AWS::S3::Bucket}}")
    assert bench.run("p") == "CREATE_COMPLETE"
    assert elsewhere.describe_stacks(StackName="p")["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE"
    bench.world.reset()
