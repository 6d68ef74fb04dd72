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

HYPERPOD = """
Parameters:
  Count: {Type: Number, Default: 2}
  Second: {Type: String, Default: "no"}
  AddonSetting: {Type: String, Default: "{}"}
Conditions: {HasSecond: !Equals [!Ref Second, "yes"]}
Resources:
  Vpc: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16, EnableDnsSupport: true, EnableDnsHostnames: true}}
  Wider: {Type: AWS::EC2::VPCCidrBlock, Properties: {VpcId: !Ref Vpc, CidrBlock: 10.1.0.0/16}}
  One: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref Vpc, CidrBlock: 10.0.0.0/20, AvailabilityZone: !Select [0, !GetAZs ""]}}
  Two:
    Type: AWS::EC2::Subnet
    DependsOn: Wider
    Properties: {VpcId: !Ref Vpc, CidrBlock: 10.1.0.0/20, AvailabilityZone: !Select [1, !GetAZs ""]}
  Group: {Type: AWS::EC2::SecurityGroup, Properties: {VpcId: !Ref Vpc, GroupDescription: nodes}}
  ControlRole:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: {Service: eks.amazonaws.com}, Action: "sts:AssumeRole"}]}
  NodeRole:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: {Service: sagemaker.amazonaws.com}, Action: "sts:AssumeRole"}]}
  NodePolicy:
    Type: AWS::IAM::ManagedPolicy
    Properties:
      Roles: [!Ref NodeRole]
      PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: "eks-auth:AssumeRoleForPodIdentity", Resource: "*"}]}
  PodRole:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        Version: 2012-10-17
        Statement: [{Effect: Allow, Principal: {Service: pods.eks.amazonaws.com}, Action: ["sts:AssumeRole", "sts:TagSession"]}]
  PodPolicy:
    Type: AWS::IAM::Policy
    Properties:
      PolicyName: read
      Roles: [!Ref PodRole]
      PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: "s3:GetObject", Resource: "*"}]}
  Cluster:
    Type: AWS::EKS::Cluster
    Properties:
      RoleArn: !GetAtt ControlRole.Arn
      AccessConfig: {AuthenticationMode: API, BootstrapClusterCreatorAdminPermissions: false}
      BootstrapSelfManagedAddons: false
      ResourcesVpcConfig: {SubnetIds: [!Ref One, !Ref Two], SecurityGroupIds: [!Ref Group]}
  Provider:
    Type: AWS::IAM::OIDCProvider
    Properties: {Url: !GetAtt Cluster.OpenIdConnectIssuerUrl, ClientIdList: [!Sub "sts.${AWS::URLSuffix}"]}
  Agent:
    Type: AWS::EKS::Addon
    Properties: {ClusterName: !Ref Cluster, AddonName: eks-pod-identity-agent, ConfigurationValues: !Ref AddonSetting}
  Admin:
    Type: AWS::EKS::AccessEntry
    Properties:
      ClusterName: !Ref Cluster
      PrincipalArn: !GetAtt PodRole.Arn
      AccessPolicies:
        - {PolicyArn: !Sub "arn:${AWS::Partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy", AccessScope: {Type: cluster}}
  Identity:
    Type: AWS::EKS::PodIdentityAssociation
    DependsOn: Agent
    Properties: {ClusterName: !Ref Cluster, Namespace: default, ServiceAccount: app, RoleArn: !GetAtt PodRole.Arn}
  HyperPod:
    Type: AWS::SageMaker::Cluster
    DependsOn: NodePolicy
    Properties:
      Orchestrator: {Eks: {ClusterArn: !GetAtt Cluster.Arn}}
      NodeRecovery: Automatic
      NodeProvisioningMode: Continuous
      VpcConfig: {SecurityGroupIds: [!Ref Group], Subnets: [!Ref One, !Ref Two]}
      InstanceGroups:
        - InstanceGroupName: workers
          InstanceType: ml.g5.8xlarge
          InstanceCount: !Ref Count
          ExecutionRole: !GetAtt NodeRole.Arn
          LifeCycleConfig: {SourceS3Uri: "s3://sagemaker-scripts/lcs/", OnCreate: on_create.sh}
        - !If
          - HasSecond
          - InstanceGroupName: more
            InstanceType: ml.c5.large
            InstanceCount: 1
            ExecutionRole: !GetAtt NodeRole.Arn
            LifeCycleConfig: {SourceS3Uri: "s3://sagemaker-scripts/lcs/", OnCreate: on_create.sh}
          - !Ref AWS::NoValue
Outputs:
  Name: {Value: !Select [1, !Split ["/", !Ref HyperPod]]}
  Eks: {Value: !Ref Cluster}
"""
