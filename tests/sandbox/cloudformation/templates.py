"""Templates the tests share."""

from __future__ import annotations

NETWORK_AND_EKS = """
AWSTemplateFormatVersion: 2010-09-09
Description: A network, roles, a bucket and an EKS cluster
Parameters:
  Prefix: {Type: String, Default: demo, AllowedPattern: "[a-z][a-z0-9-]*"}
  VpcCidr: {Type: String, Default: 10.20.0.0/16}
  Public: {Type: String, Default: "true", AllowedValues: ["true", "false"]}
Conditions:
  IsPublic: !Equals [!Ref Public, "true"]
Resources:
  Vpc:
    Type: AWS::EC2::VPC
    Properties:
      CidrBlock: !Ref VpcCidr
      EnableDnsHostnames: true
      EnableDnsSupport: "true"
      Tags: [{Key: Name, Value: !Sub "${Prefix}-vpc"}]
  Gateway: {Type: AWS::EC2::InternetGateway}
  Attachment:
    Type: AWS::EC2::VPCGatewayAttachment
    Properties: {VpcId: !Ref Vpc, InternetGatewayId: !Ref Gateway}
  PublicSubnet:
    Type: AWS::EC2::Subnet
    Properties:
      VpcId: !Ref Vpc
      AvailabilityZone: !Select [0, !GetAZs ""]
      CidrBlock: !Select [0, !Cidr [!GetAtt Vpc.CidrBlock, 4, 8]]
      MapPublicIpOnLaunch: !If [IsPublic, true, !Ref AWS::NoValue]
  PrivateOne:
    Type: AWS::EC2::Subnet
    Properties:
      VpcId: !Ref Vpc
      AvailabilityZone: !Select [0, !GetAZs ""]
      CidrBlock: !Select [1, !Cidr [!GetAtt Vpc.CidrBlock, 4, 8]]
  PrivateTwo:
    Type: AWS::EC2::Subnet
    Properties:
      VpcId: !Ref Vpc
      AvailabilityZone: !Select [1, !GetAZs {Ref: "AWS::Region"}]
      CidrBlock: !Select [2, !Cidr [!GetAtt Vpc.CidrBlock, 4, 8]]
  PublicTable: {Type: AWS::EC2::RouteTable, Properties: {VpcId: !Ref Vpc}}
  PublicRoute:
    Type: AWS::EC2::Route
    DependsOn: Attachment
    Properties: {RouteTableId: !Ref PublicTable, DestinationCidrBlock: 0.0.0.0/0, GatewayId: !Ref Gateway}
  PublicLink:
    Type: AWS::EC2::SubnetRouteTableAssociation
    Properties: {RouteTableId: !Ref PublicTable, SubnetId: !Ref PublicSubnet}
  Address: {Type: AWS::EC2::EIP, DependsOn: [Attachment], Properties: {Domain: vpc}}
  Nat:
    Type: AWS::EC2::NatGateway
    Properties: {AllocationId: !GetAtt Address.AllocationId, SubnetId: !Ref PublicSubnet}
  PrivateTable: {Type: AWS::EC2::RouteTable, Properties: {VpcId: !Ref Vpc}}
  PrivateRoute:
    Type: AWS::EC2::Route
    Properties: {RouteTableId: !Ref PrivateTable, DestinationCidrBlock: 0.0.0.0/0, NatGatewayId: !Ref Nat}
  PrivateLink:
    Type: AWS::EC2::SubnetRouteTableAssociation
    Properties: {RouteTableId: !Ref PrivateTable, SubnetId: !Ref PrivateOne}
  Endpoint:
    Type: AWS::EC2::VPCEndpoint
    Properties:
      VpcId: !Ref Vpc
      ServiceName: !Sub "com.amazonaws.${AWS::Region}.s3"
      RouteTableIds: [!Ref PrivateTable]
  Group:
    Type: AWS::EC2::SecurityGroup
    Properties: {VpcId: !Ref Vpc, GroupDescription: nodes}
  GroupSelf:
    Type: AWS::EC2::SecurityGroupIngress
    Properties: {GroupId: !GetAtt Group.GroupId, IpProtocol: "-1", SourceSecurityGroupId: !Ref Group}
  ClusterRole:
    Type: AWS::IAM::Role
    Properties:
      RoleName: !Sub "${Prefix}-cluster"
      AssumeRolePolicyDocument:
        Version: 2012-10-17
        Statement: [{Effect: Allow, Principal: {Service: eks.amazonaws.com}, Action: "sts:AssumeRole"}]
      ManagedPolicyArns: [!Sub "arn:${AWS::Partition}:iam::aws:policy/AmazonEKSClusterPolicy"]
      Policies:
        - PolicyName: extra
          PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: "logs:*", Resource: "*"}]}
  Bucket:
    Type: AWS::S3::Bucket
    Properties:
      BucketName: !Join ["-", [!Ref Prefix, !Ref "AWS::AccountId", data]]
      PublicAccessBlockConfiguration: {BlockPublicAcls: true, BlockPublicPolicy: true, IgnorePublicAcls: true, RestrictPublicBuckets: true}
      BucketEncryption:
        ServerSideEncryptionConfiguration: [{ServerSideEncryptionByDefault: {SSEAlgorithm: AES256}}]
  BucketRules:
    Type: AWS::S3::BucketPolicy
    Properties:
      Bucket: !Ref Bucket
      PolicyDocument:
        Version: 2012-10-17
        Statement:
          - {Effect: Deny, Principal: "*", Action: "s3:*", Resource: [!GetAtt Bucket.Arn, !Sub "${Bucket.Arn}/*"],
             Condition: {Bool: {"aws:SecureTransport": "false"}}}
  Cluster:
    Type: AWS::EKS::Cluster
    Properties:
      Name: !Ref Prefix
      RoleArn: !GetAtt ClusterRole.Arn
      AccessConfig: {AuthenticationMode: API_AND_CONFIG_MAP}
      ResourcesVpcConfig: {SubnetIds: [!Ref PrivateOne, !Ref PrivateTwo], SecurityGroupIds: [!Ref Group]}
      Logging: {ClusterLogging: {EnabledTypes: [{Type: api}]}}
Outputs:
  VpcId: {Value: !Ref Vpc, Export: {Name: !Sub "${AWS::StackName}-vpc"}}
  Issuer: {Value: !GetAtt Cluster.OpenIdConnectIssuerUrl, Description: where tokens come from}
  Arn: {Condition: IsPublic, Value: !GetAtt Cluster.Arn}
"""
