"""What may be asked of an import. Every switch is off until it is asked for: an import by itself changes nothing on AWS."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, Region, Tag, Target

EksName = Annotated[
    str,
    Field(
        max_length=2048,
        pattern=patterns.EKS_CLUSTER,
        description="Name or ARN of the EKS cluster; left out: the one that orchestrates hyperpod_cluster.",
        examples=["research"],
    ),
]
HyperPodName = Annotated[
    str,
    Field(
        max_length=2048,
        pattern=patterns.HYPERPOD_CLUSTER,
        description="Name or ARN of the HyperPod cluster; left out: the one on eks_cluster, if there is one.",
        examples=["research-nodes"],
    ),
]


class Switches(Ask):
    """What the import may change. The plan (dry_run) says which of them would mend what it found."""

    make_access_entry: Annotated[
        bool, Field(description="Make an EKS access entry that lets InstantStart's own identity administer the cluster.")
    ] = False
    set_authentication_mode: Annotated[
        bool, Field(description="Change the authentication mode from CONFIG_MAP to API_AND_CONFIG_MAP. It cannot be changed back.")
    ] = False
    update_network_plugin: Annotated[
        bool, Field(description="Bring the VPC network plugin to the default version, as an EKS add-on. Running pods keep their addresses.")
    ] = False
    enable_prefix_delegation: Annotated[
        bool, Field(description="Let the VPC network plugin hand out /28 prefixes: more pods a node. For nodes that join from then on.")
    ] = False
    install_dependencies: Annotated[
        bool, Field(description="Install what HyperPod needs and the cluster lacks: OIDC provider, pod identity agent, bundles, S3 driver.")
    ] = False
    cert_manager: Annotated[bool, Field(description="With install_dependencies: the cert-manager add-on too.")] = False
    overwrite_conflicts: Annotated[
        bool, Field(description="With install_dependencies: take over what others installed. Left false, their copies are used.")
    ] = False


class ImportCluster(Switches):
    """Ask for an EKS cluster that others made, with the HyperPod cluster on it, to be managed here."""

    eks_cluster: EksName | None = None
    hyperpod_cluster: HyperPodName | None = None
    region: Region | None = None
    tag: Tag | None = None


class ImportTarget(Target, Switches):
    """cluster.import with what was found: names without ARNs; ``origin`` is created for a cluster that bears our own tag."""

    eks_cluster: str
    eks_arn: str
    hyperpod_cluster: str | None = None
    hyperpod_arn: str | None = None
    origin: str = "imported"
