"""The shapes of texts that are asked for, and each in words: a person is never shown a regular expression."""

from __future__ import annotations

from instantstart.base.names import TAG_PATTERN

TAG = TAG_PATTERN
REGION = r"^[a-z]{2,5}(-[a-z]{2,12}){1,3}-\d{1,2}$"
VPC_ID = r"^vpc-[0-9a-f]{8,17}$"
SUBNET_ID = r"^subnet-[0-9a-f]{8,17}$"
ZONE = r"^[a-z0-9-]+$"
INSTANCE_TYPE = r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$"
INSTANCE_TYPE_PART = r"^[a-z0-9.-]*$"
BUCKET = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
KUBERNETES_VERSION = r"^1\.\d{2}$"
CIDR = r"^\d{1,3}(\.\d{1,3}){3}/\d{1,2}$"
EKS_CLUSTER = r"^(arn:[a-z-]+:eks:[a-z0-9-]+:\d{12}:cluster/)?[0-9A-Za-z][0-9A-Za-z_-]{0,99}$"
HYPERPOD_CLUSTER = r"^(arn:[a-z-]+:sagemaker:[a-z0-9-]+:\d{12}:cluster/)?[0-9A-Za-z](-*[0-9A-Za-z]){0,62}$"
TRAINING_PLAN_ARN = r"^arn:[a-z-]+:sagemaker:[a-z0-9-]+:\d{12}:training-plan/.+$"
INSTANCE_GROUP = r"^[a-zA-Z0-9](-*[a-zA-Z0-9])*$"
FOLDER = r"^([^/\x00-\x1f][^\x00-\x1f]*/)?$"
OBJECT_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
LABEL_SELECTOR = r"^[A-Za-z0-9_./,=!() -]+$"
#: a namespace to choose by, or nothing for all
ONLY_NAMESPACE = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"
KUBERNETES_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
FORM_NAME = r"^[^\x00-\x1f\x7f]*[^\x00-\x1f\x7f.][^\x00-\x1f\x7f]*$"
ID = r"^[A-Za-z0-9_-]+$"
ADDON_VERSION = r"^v\d+\.\d+\.\d+(-eksbuild\.\d+)?$"
WORKSPACE_ARN = r"^arn:[a-z-]+:aps:[a-z0-9-]+:\d{12}:workspace/ws-[a-f0-9-]+$"
GRAFANA_ARN = r"^arn:[a-z-]+:grafana:[a-z0-9-]+:\d{12}:/workspaces/g-[a-z0-9]+$"
RELEASE = r"^[0-9]+\.[0-9]+\.[0-9]+$"
IMAGE_ID = r"^(ami-[0-9a-fA-F]{8,17}|default)$"
FILE_SYSTEM_ID = r"^fs-[0-9a-f]{8,40}$"
HUB_REPOSITORY = r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$"
HUB_REVISION = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"
HUB_GLOB = r"^[^\x00-\x20\x7f]+$"
PLAIN_FOLDER = r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$"
QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|Ki|Mi|Gi|Ti)?$"
TAINT = r"^[^=:\s]+(=[^=:\s]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$"
S3_URI = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\x00-\x20]*)?$"
TRAINING_PLAN_NAME = r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,63}$"
OFFERING_ID = r"^[a-z0-9-]+$"
DURATION = r"^([0-9]+(s|m|h))+$"
DURATION_OR_NEVER = r"^(([0-9]+(s|m|h))+|Never)$"
SHARE_OF_NODES = r"^((100|[0-9]{1,2})%|[0-9]+)$"
ROLE_ARN = r"^arn:[a-z-]+:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$"
LABEL_KEY = r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$"
AMOUNT = r"^\d{1,20}(\.\d{1,6})?$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
URL_PATH = r"^/[A-Za-z0-9._/-]*$"
CALL_PATH = r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$"
HUB_MODEL = r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$"
COMMIT = r"^[0-9a-f]{40}$"
REDIS_URL = r"^rediss?://[^\x00-\x20\x7f/@]+(/[0-9]{1,5})?$"
HEADER = r"^[A-Za-z0-9_-]+$"
WORKSPACE_URL = r"^https://aps-workspaces\.[a-z0-9-]+(\.[a-z0-9-]+)+/workspaces/ws-[A-Za-z0-9-]+$"
CERTIFICATE_ARN = r"^arn:[a-z-]+:acm:[a-z0-9-]+:[0-9]{12}:certificate/[a-fA-F0-9-]+$"
DOMAIN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$"
HOSTED_ZONE = r"^Z[A-Z0-9]+$"
SERVICE_PLACE = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?:[0-9]{1,5}$"
SERVICE_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
ABSOLUTE_PATH = r"^/[^\x00-\x1f\x7f:]*$"
SOURCE_RANGE = r"^[0-9A-Fa-f:.]{2,39}/\d{1,3}$"
MIG_SLICE = r"^[0-9]{1,2}g\.[0-9]{1,3}gb$"
TRACKING = r"^(arn:[a-z-]+:sagemaker:[a-z0-9-]+:\d{12}:mlflow-(tracking-server|app)/[A-Za-z0-9-]+|https?://[^\x00-\x20\x7f]+)$"
MLFLOW_ARN = r"^arn:[a-z-]+:sagemaker:[a-z0-9-]+:\d{12}:mlflow-(tracking-server|app)/[A-Za-z0-9-]+$"
MLFLOW_STORE = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._=/-]*)?$"
MLFLOW_VERSION = r"^\d{1,3}\.\d{1,3}(\.\d{1,3})?$"
MLFLOW_RUN = r"^[A-Za-z0-9_-]+$"
WEEKLY = r"^(Mon|Tue|Wed|Thu|Fri|Sat|Sun):([01]\d|2[0-3]):[0-5]\d$"
EXTERNAL_ID = r"^[A-Za-z0-9+=,.@:/_-]+$"
ONE_LINE = r"^[^\x00-\x1f\x7f]*$"
OWN_PATH = r"^/([^/\\\x00-\x20\x7f][^\\\x00-\x20\x7f]*)?$"
SHA256 = r"^[0-9a-f]{64}$"
MODULE = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"

#: what follows "must" in a sentence
WORDS = {
    TAG: "have letters a-z, digits, '-', '_' and '.' only, and begin and end with a letter or digit",
    REGION: "be an AWS region, such as us-west-2",
    VPC_ID: "be a VPC id: vpc- and hexadecimal digits",
    SUBNET_ID: "be a subnet id: subnet- and hexadecimal digits",
    ZONE: "be the name or id of a zone, such as usw2-az2",
    INSTANCE_TYPE: "be a SageMaker instance type, such as ml.g5.8xlarge",
    INSTANCE_TYPE_PART: "be a part of an instance type's name, such as g5",
    BUCKET: "be a bucket name: 3 to 63 lower-case letters, digits, '.' and '-'",
    KUBERNETES_VERSION: "be a Kubernetes minor version, such as 1.33",
    CIDR: "be a range of addresses, such as 10.90.0.0/16",
    EKS_CLUSTER: "be the name of an EKS cluster, or its ARN",
    HYPERPOD_CLUSTER: "be the name of a HyperPod cluster, or its ARN",
    TRAINING_PLAN_ARN: "be the ARN of a SageMaker training plan",
    INSTANCE_GROUP: "have letters, digits and single hyphens between them",
    FOLDER: "be empty, or a folder that ends with a slash and does not begin with one",
    OBJECT_NAME: "have lower-case letters, digits, '-' and '.', and begin and end with a letter or digit",
    LABEL_SELECTOR: "be a label selector, such as app=web,tier!=db",
    ONLY_NAMESPACE: "have lower-case letters, digits and '-', and begin and end with a letter or digit; nothing means all",
    KUBERNETES_NAME: "have lower-case letters, digits and '-', and begin and end with a letter or digit",
    PRINTABLE: "have printable characters only",
    FORM_NAME: "have printable characters only, and not dots alone",
    TAINT: "be key=value:Effect or key:Effect, with the effect NoSchedule, PreferNoSchedule or NoExecute",
    S3_URI: "be a folder in S3, such as s3://bucket/folder",
    TRAINING_PLAN_NAME: "have letters, digits and single hyphens between them, 64 at most",
    DURATION: "be a duration, such as 10m or 1h30m",
    DURATION_OR_NEVER: "be a duration, such as 10m or 720h, or Never",
    SHARE_OF_NODES: "be a number of nodes, or a percentage such as 10%",
    ROLE_ARN: "be the ARN of an IAM role",
    LABEL_KEY: "be a label key: letters, digits, '-', '_' and '.', with an optional domain before a slash",
    LABEL_VALUE: "be a label value: letters, digits, '-', '_' and '.'",
    OFFERING_ID: "have lower-case letters, digits and '-' only",
    AMOUNT: "be an amount, such as 1234.50",
    ID: "have letters, digits, '-' and '_' only",
    ADDON_VERSION: "be the version of an add-on, such as v1.18.2-eksbuild.2",
    WORKSPACE_ARN: "be the ARN of an Amazon Managed Prometheus workspace",
    GRAFANA_ARN: "be the ARN of an Amazon Managed Grafana workspace",
    RELEASE: "be a release, such as 1.2.0",
    IMAGE_ID: "be the id of an image (ami- and hexadecimal digits), or default",
    FILE_SYSTEM_ID: "be the id of a file system: fs- and hexadecimal digits",
    HUB_REPOSITORY: "be the name of a repository on the hub: owner/name, with letters, digits, '.', '_' and '-'",
    HUB_REVISION: "be a branch, a tag or a commit of a repository",
    HUB_GLOB: "be a pattern of file names, such as *.safetensors",
    PLAIN_FOLDER: "be a folder: letters, digits, '.', '_' and '-', with single slashes between",
    MIG_SLICE: "be a MIG slice, such as 1g.10gb",
    TRACKING: "be the ARN of a tracking server or app of MLflow on SageMaker, or an address that begins with http",
    MLFLOW_ARN: "be the ARN of a tracking server or app of MLflow on SageMaker",
    MLFLOW_STORE: "be a folder in S3, such as s3://bucket/folder, of letters, digits, '.', '_', '=' and '-'",
    MLFLOW_VERSION: "be a version of MLflow, such as 3.0",
    MLFLOW_RUN: "be the id of a run",
    WEEKLY: "be a day and a time of UTC, such as Tue:03:30",
    EXTERNAL_ID: "have letters, digits and +=,.@:/_- only",
    ONE_LINE: "be one line of printable characters",
    OWN_PATH: "be an address of this console, such as /clusters",
    SHA256: "be a SHA-256: 64 lower-case hexadecimal digits",
    MODULE: "be the dotted name of a Python module",
    QUANTITY: "be a quantity of Kubernetes, such as 500m, 4 or 16Gi",
    VARIABLE: "be the name of an environment variable: letters, digits, '_', '.' and '-', not beginning with a digit",
    URL_PATH: "be a path that begins with a slash: letters, digits, '.', '_', '-' and '/'",
    CALL_PATH: "be a path such as v1/chat/completions: no slash at its start, no '..', no address",
    HUB_MODEL: "be the name of a model on the hub: owner/name",
    COMMIT: "be a full commit: 40 lower-case hexadecimal digits",
    REDIS_URL: "be the address of a Redis without a password in it, such as redis://cache.default:6379",
    HEADER: "have letters, digits, '-' and '_' only",
    WORKSPACE_URL: "be the https address of an Amazon Managed Prometheus workspace: https://aps-workspaces... and /workspaces/ws-...",
    CERTIFICATE_ARN: "be the ARN of a certificate in ACM",
    DOMAIN: "be a domain in lower case, without a wildcard",
    HOSTED_ZONE: "be the id of a hosted zone of Route 53, beginning with Z",
    SERVICE_PLACE: "name a Service as namespace/name:port, such as monitoring/prometheus-server:80",
    SERVICE_NAME: "have lower-case letters, digits and '-', begin with a letter and end with a letter or digit",
    ABSOLUTE_PATH: "be a path in the container that begins with /",
    SOURCE_RANGE: "be a range of addresses, such as 10.0.0.0/8",
}
