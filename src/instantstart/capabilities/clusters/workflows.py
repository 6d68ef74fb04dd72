"""What can be done with a cluster: the table of contents of this slice. Declarations only.

Typical times are seconds of the world on AWS; the sandbox keeps them. ``Together`` runs what does not need EKS while EKS
is being made, and what does not need one another side by side.
"""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.clusters import hyperpod_stages, removal, specs, stages
from instantstart.capabilities.vocabulary import subject
from instantstart.operations.declare import Stage, Together, Workflow

_ACCOUNT = Stage("account", stages.check_account, "Check account, quotas and names", within=minutes(30), typical=10)
_NETWORK = Stage("network", stages.plan_network, "Choose zones and address ranges", within=minutes(30), typical=5)
_STACK = Stage("stack", stages.make_stack, "Make the network and the EKS control plane", within=minutes(180), typical=780)
_ACCESS = Stage("access", stages.open_access, "Let our own identity into the cluster", within=minutes(30), typical=10)
_REACH = Stage("reach", stages.reach, "Get a verified answer of the API server", within=minutes(30), typical=15)

_OIDC = Stage("oidc", stages.make_oidc_provider, "Let IAM trust the cluster's service accounts", within=minutes(30), typical=5)
_AGENT = Stage("pod_identity", stages.ask_pod_identity, "Ask for the pod identity agent", within=minutes(30), typical=10)
_BUNDLES = Stage("bundles", stages.apply_bundles, "Install the HyperPod dependencies", within=minutes(20), typical=15)
_CSI_ROLE = Stage("csi_role", stages.make_s3_csi_role, "Make the role of the S3 driver", within=minutes(30), typical=5)
_CSI = Stage("s3_csi", stages.ask_s3_csi, "Ask for the S3 driver", within=minutes(30), typical=10)
_CERTIFICATES = Stage(
    "cert_manager",
    stages.ask_cert_manager,
    "Ask for cert-manager",
    within=minutes(30),
    typical=10,
    when=lambda spec: bool(spec.cert_manager),
)
_SETTLED = Stage("dependencies", stages.await_dependencies, "See every dependency ready", within=minutes(45), typical=90)

_ROLE = Stage("node_role", hyperpod_stages.make_node_role, "Make the nodes' execution role", within=minutes(30), typical=5)
_SCRIPTS = Stage("scripts", hyperpod_stages.make_scripts, "Store and verify the lifecycle scripts", within=minutes(30), typical=5)
_SUBNET = Stage("subnet", hyperpod_stages.place_subnet, "Find or make the compute subnet", within=minutes(30), typical=10)
_REQUEST = Stage("hyperpod", hyperpod_stages.request_cluster, "Make the HyperPod cluster", within=minutes(90), typical=330)
_NODES = Stage("nodes", hyperpod_stages.await_nodes, "See the nodes running", within=minutes(180), typical=300)
_JOIN = Stage("join", hyperpod_stages.await_join, "See the nodes ready in Kubernetes", within=minutes(30), typical=60)

_BUCKET = Stage("bucket", stages.make_data_bucket, "Find or make the bucket", within=minutes(30), typical=5)
_ALLOW = Stage("bucket_access", stages.allow_bucket, "Let the S3 driver reach the bucket", within=minutes(30), typical=3)
_CLAIM = Stage("claim", stages.make_claim, "Make the volume and bind its claim", within=minutes(30), typical=10)
_VERIFY = Stage("verify", stages.verify, "Read everything anew", within=minutes(30), typical=5)


CREATE_EKS = Workflow("eks.create", "Create the EKS cluster", specs.EksTarget, subject, (_ACCOUNT, _NETWORK, _STACK))
CONNECT = Workflow("cluster.connect", "Connect to the cluster", specs.ConnectTarget, subject, (_ACCESS, _REACH))
CONFIGURE_DEPENDENCIES = Workflow(
    "dependencies.configure",
    "Configure dependencies",
    specs.DependenciesTarget,
    subject,
    (_OIDC, Together((_AGENT, _BUNDLES, _CSI_ROLE, _CERTIFICATES)), _CSI, _SETTLED),
)
CREATE_HYPERPOD = Workflow(
    "hyperpod.create",
    "Create the HyperPod cluster",
    specs.HyperPodTarget,
    subject,
    (Together((_ROLE, _SCRIPTS, _SUBNET)), _REQUEST, _NODES, _JOIN),
)
CONFIGURE_STORAGE = Workflow("storage.configure", "Configure S3 storage", specs.StorageTarget, subject, (_BUCKET, _ALLOW, _CLAIM))
VERIFY = Workflow("cluster.verify", "Verify the cluster", specs.VerifyTarget, subject, (_VERIFY,))
CREATE_CLUSTER = Workflow(
    "cluster.create",
    "Create a cluster",
    specs.ClusterTarget,
    subject,
    (
        _ACCOUNT,
        _NETWORK,
        Together((_STACK, _ROLE, _SCRIPTS, _BUCKET)),
        Together((_ACCESS, _OIDC)),
        Together((_REACH, _SUBNET, _CSI_ROLE)),
        _BUNDLES,
        Together((_REQUEST, _AGENT, _CSI, _CERTIFICATES)),
        Together((_NODES, _ALLOW)),
        Together((_JOIN, _CLAIM)),
        _SETTLED,
        _VERIFY,
    ),
)
DELETE_CLUSTER = Workflow(
    "cluster.delete",
    "Delete the cluster",
    specs.DeleteTarget,
    subject,
    (
        Stage("survey", removal.survey, "Write down what there is", within=minutes(30), typical=5),
        Stage("services", removal.release_services, "Release what Kubernetes holds outside", within=minutes(20), typical=30),
        Stage("hyperpod", removal.remove_hyperpod, "Delete the HyperPod cluster", within=minutes(90), typical=240),
        Stage("inside", removal.remove_inside, "Take what is ours out of a cluster that stays", within=minutes(30), typical=2),
        Stage("access", removal.remove_access, "Give up our access to a cluster that stays", within=minutes(30), typical=1),
        Stage("leftovers", removal.remove_leftovers, "Remove leftovers of Kubernetes", within=minutes(30), typical=15),
        Stage("subnets", removal.remove_subnets, "Remove the compute subnets", within=minutes(30), typical=15),
        Stage("stack", removal.remove_stack, "Remove the EKS cluster and the network", within=minutes(120), typical=420),
        Stage("identity", removal.remove_identity, "Remove roles and the OIDC provider", within=minutes(30), typical=10),
        Stage("buckets", removal.remove_buckets, "Remove the buckets", within=minutes(30), typical=10),
        Stage("sign_off", removal.sign_off, "See that nothing is left", within=minutes(30), typical=5),
    ),
    destructive=True,
)

WORKFLOWS = (CREATE_CLUSTER, CREATE_EKS, CONNECT, CONFIGURE_DEPENDENCIES, CREATE_HYPERPOD, CONFIGURE_STORAGE, VERIFY, DELETE_CLUSTER)
