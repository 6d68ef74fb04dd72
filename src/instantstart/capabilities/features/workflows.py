"""What can be done with features: the table of contents of this slice. Declarations only.

Each switch is an operation of its own. They share a subject, so that they go one after the other in the order they were asked in, and
beside what is done with the cluster itself (docs/decisions/0007).
"""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.features import removal, rules, specs, stages
from instantstart.operations.declare import Stage, Together, Workflow

_LOOK = Stage("look", stages.look, "See what is there", within=minutes(30), typical=5)
_AGENT = Stage(
    "pod_identity",
    stages.bring("pod_identity"),
    "See the pod identity agent",
    within=minutes(30),
    typical=60,
    when=rules.needs("pod_identity"),
)
_CERTIFICATES = Stage(
    "cert_manager", stages.bring("cert_manager"), "See cert-manager", within=minutes(40), typical=90, when=rules.needs("cert_manager")
)
_METRICS = Stage(
    "metrics_server",
    stages.bring("metrics_server"),
    "See the metrics server",
    within=minutes(40),
    typical=90,
    when=rules.needs("metrics_server"),
)
_S3 = Stage("s3_csi", stages.bring("s3_csi"), "See the S3 driver", within=minutes(40), typical=90, when=rules.needs("s3_csi"))
_FSX = Stage("fsx_csi", stages.bring("fsx_csi"), "See the FSx driver", within=minutes(40), typical=90, when=rules.needs("fsx_csi"))
_ROLES = Stage("roles", stages.part(stages.make_roles), "Make its roles", within=minutes(30), typical=5, when=rules.has_chains)
_ASSOCIATE = Stage(
    "accounts", stages.part(stages.associate), "Give its accounts their roles", within=minutes(30), typical=15, when=rules.has_chains
)
_PREPARE = Stage(
    "prepare",
    stages.part(stages.prepare),
    "Make what it needs outside of the cluster",
    within=minutes(30),
    typical=10,
    when=rules.is_prepared,
)
_DISPLACE = Stage(
    "displace", stages.part(stages.displace), "Remove the copies that were named", within=minutes(30), typical=15, when=rules.overwrites
)
_INSTALL = Stage("install", stages.part(stages.install), "Install it, or change its setting", within=minutes(30), typical=10)
_ANNOTATE = Stage(
    "annotate", stages.part(stages.annotate), "Give what it brought its roles", within=minutes(30), typical=5, when=rules.has_chains
)
_READY = Stage("ready", stages.part(stages.ready), "See it work", within=minutes(40), typical=90)
_RESTART = Stage(
    "restart", stages.part(stages.restart), "Restart what started before its role", within=minutes(20), typical=5, when=rules.has_chains
)
_VERIFY = Stage("verify", stages.part(stages.verify), "Read everything anew", within=minutes(30), typical=5)

ENABLE = Workflow(
    "feature.enable",
    "Switch a feature on",
    specs.SwitchTarget,
    rules.subject,
    (
        _LOOK,
        _AGENT,
        Together((_CERTIFICATES, _METRICS, _S3, _FSX)),
        _ROLES,
        _ASSOCIATE,
        _PREPARE,
        _DISPLACE,
        _INSTALL,
        _ANNOTATE,
        _READY,
        _RESTART,
        _VERIFY,
    ),
    queueable=True,
)
DISABLE = Workflow(
    "feature.disable",
    "Switch a feature off",
    specs.SwitchTarget,
    rules.subject,
    (
        Stage("look", removal.look, "See that nothing rests on it", within=minutes(30), typical=5),
        Stage("uninstall", stages.part(removal.uninstall), "Remove it, or change its setting back", within=minutes(40), typical=60),
        Stage("identity", stages.part(removal.unchain), "Take its roles away", within=minutes(30), typical=10, when=rules.has_chains),
        Stage(
            "outside", stages.part(removal.clear), "Remove what it had outside of the cluster", within=minutes(30), typical=5,
            when=rules.is_prepared,
        ),
        Stage("verify", stages.part(removal.verify), "See that nothing of it is left", within=minutes(30), typical=5),
    ),
    destructive=True,
    queueable=True,
)  # fmt: skip
UPGRADE = Workflow(
    "feature.upgrade",
    "Upgrade a feature",
    specs.UpgradeTarget,
    rules.subject,
    (Stage("upgrade", stages.part(stages.upgrade), "Ask EKS for the version", within=minutes(30), typical=60), _READY, _VERIFY),
    queueable=True,
)
REPAIR = Workflow(
    "feature.repair",
    "Repair identity chains",
    specs.RepairTarget,
    rules.subject,
    (
        Stage("roles", stages.repair_roles, "Put roles and trust right", within=minutes(30), typical=10),
        Stage("accounts", stages.repair_accounts, "Put annotations and associations right", within=minutes(30), typical=10),
        Stage("configuration", stages.repair_configuration, "Put values of add-ons right", within=minutes(30), typical=10),
        Stage("pods", stages.repair_pods, "Restart what started before its role was right", within=minutes(20), typical=30),
        Stage("verify", stages.repair_verified, "Read everything anew", within=minutes(30), typical=5),
    ),
    queueable=True,
)

WORKFLOWS = (ENABLE, DISABLE, UPGRADE, REPAIR)
