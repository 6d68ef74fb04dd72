"""Every knob of the sandbox: durations, limits, and how unkind it is. Times are virtual seconds unless named otherwise.

The defaults are unkind on purpose (design.md 5). Each can be set by the admin API (``POST /_sandbox/settings``) or
by a JSON file of ``{field: value}`` given at the start.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass
class Settings:
    """Read by the services at the moment they need a figure, so that a change has effect at once."""

    #: the seed of every random choice (jitter, fault probability)
    seed: int = 1

    # EKS
    eks_create_seconds: float = 600.0
    #: EKS takes 8 to 12 minutes: the creation is drawn from seconds * (1 +- jitter)
    eks_create_jitter: float = 0.2
    eks_delete_seconds: float = 240.0
    eks_update_seconds: float = 300.0
    addon_create_seconds: float = 45.0
    addon_delete_seconds: float = 30.0
    pod_identity_visible_seconds: float = 5.0
    access_entry_effective_seconds: float = 10.0
    nodegroup_create_seconds: float = 180.0

    # HyperPod
    cluster_create_seconds: float = 300.0
    cluster_delete_seconds: float = 180.0
    cluster_update_seconds: float = 60.0
    cluster_software_update_seconds: float = 600.0
    node_running_seconds: float = 240.0
    node_join_seconds: float = 40.0
    node_delete_seconds: float = 120.0
    node_reboot_seconds: float = 180.0
    deep_health_check_seconds: float = 3600.0
    node_jitter: float = 0.1

    # Network and storage
    nat_gateway_seconds: float = 90.0
    nat_gateway_delete_seconds: float = 60.0
    vpc_endpoint_seconds: float = 20.0
    vpc_endpoint_delete_seconds: float = 20.0
    fsx_create_seconds: float = 400.0
    fsx_delete_seconds: float = 120.0

    # MLflow on SageMaker
    mlflow_server_create_seconds: float = 1200.0
    mlflow_app_create_seconds: float = 180.0
    #: update, stop, start, delete
    mlflow_change_seconds: float = 120.0
    #: a real ``mlflow server`` stands behind each; without, its address says that there is none
    mlflow_serves: bool = True

    #: from the request of a quota increase to its approval
    quota_request_seconds: float = 7200.0

    # Unkindness
    #: a new role, or a change of its trust, is not seen by other services for this long
    iam_delay: float = 10.0
    #: describe and list answers leave out what was made less than this long ago; 0 is off
    stale_reads: float = 0.0
    #: check every call against the caller's IAM policies, and its signature
    iam_enforcement: bool = False
    #: keep every question that IAM is asked (``GET /_sandbox/iam_questions``): what policies are made from
    iam_record: bool = False
    #: hold moto's answers against the service model, as ours always are (``GET /_sandbox/breaches``); costs half of a call again
    check_answers: bool = False
    #: no answer has more items than this, where the operation takes a page size; 0: pages as on AWS
    largest_page: int = 0
    #: an access key that does not exist is refused, as on AWS; True takes it for the account's root
    accept_unknown_keys: bool = False
    #: a ``k8s-aws-v1.`` token's life; AWS: 15 minutes
    token_seconds: float = 900.0
    #: which clock a token's age is measured on: ``wall``, ``virtual`` or ``both`` (expired by either one)
    token_clock: str = "wall"  # noqa: S105
    #: how far behind AWS's the callers' clocks are (seconds, negative: ahead); past five minutes signatures are refused
    client_skew: float = 0.0
    #: Kubernetes hangs up every watch after so many real seconds, in the middle of whatever it sends; 0: as long as asked for
    watch_cut_seconds: float = 0.0
    #: the default answer to "how many instances of a type has a zone left"
    default_capacity: int = 64
    #: bytes of one request's body; more is EntityTooLarge
    max_body_bytes: int = 1 << 30

    def update(self, values: dict[str, Any]) -> None:
        """Set fields by name; ValueError for an unknown field or a value of another type."""
        fields = {f.name: f for f in dataclasses.fields(self)}
        for name, value in values.items():
            if name not in fields:
                raise ValueError(f"no setting is named {name!r}")
            current = getattr(self, name)
            if isinstance(current, float) and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            if type(value) is not type(current):
                raise ValueError(f"{name} takes a {type(current).__name__}, not {value!r}")
            setattr(self, name, value)

    def dump(self) -> dict[str, Any]:
        """All fields as JSON."""
        return dataclasses.asdict(self)
