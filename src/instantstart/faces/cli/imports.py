"""``instantstart cluster import``: what could be imported, what is wrong with it, and the import."""

from __future__ import annotations

from typing import Annotated

import typer

from instantstart.faces.cli import show, steps
from instantstart.faces.cli.session import TABLE, DryRun, Output, Wait, client
from instantstart.faces.cli.steps import Region, asked, begin

_Switch = bool | None


def import_cluster(
    eks_cluster: Annotated[str | None, typer.Argument(help="Name or ARN of the EKS cluster.", show_default=False)] = None,
    hyperpod: Annotated[str | None, typer.Option(help="Name or ARN of the HyperPod cluster; left out: the one on it.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what could be imported, and do nothing.")] = False,
    tag: Annotated[str | None, typer.Option(help="Short name here; left out: derived from the EKS cluster's name.")] = None,
    region: Region = None,
    make_access_entry: Annotated[_Switch, typer.Option("--make-access-entry", help="Let InstantStart's identity in.")] = None,
    set_authentication_mode: Annotated[
        _Switch, typer.Option("--set-authentication-mode", help="CONFIG_MAP becomes API_AND_CONFIG_MAP, for good.")
    ] = None,
    update_network_plugin: Annotated[_Switch, typer.Option("--update-network-plugin", help="Bring vpc-cni to its default version.")] = None,
    enable_prefix_delegation: Annotated[
        _Switch, typer.Option("--enable-prefix-delegation", help="Let vpc-cni hand out /28 prefixes.")
    ] = None,
    install_dependencies: Annotated[_Switch, typer.Option("--install-dependencies", help="Install what HyperPod lacks there.")] = None,
    overwrite_conflicts: Annotated[_Switch, typer.Option("--overwrite-conflicts", help="Take over what others installed.")] = None,
    file: steps.Spec = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Manage an EKS cluster that others made, and the HyperPod cluster on it. Look first: --list, then --dry-run.

    Nothing on AWS changes but what an option asks for.
    """
    with client() as http:
        if listed:
            _show_candidates(http.get("/cluster-candidates", region=region), output)
            return
        body = asked(
            file, eks_cluster=eks_cluster, hyperpod_cluster=hyperpod, tag=tag, region=region, make_access_entry=make_access_entry,
            set_authentication_mode=set_authentication_mode, update_network_plugin=update_network_plugin,
            enable_prefix_delegation=enable_prefix_delegation, install_dependencies=install_dependencies,
            overwrite_conflicts=overwrite_conflicts,
        )  # fmt: skip
        begin(http, "POST", "/cluster-imports", steps.How(wait, output, dry_run), body)


def _show_candidates(page: show.Row, output: show.Format) -> None:
    if output is not TABLE:
        show.data(page, output)
        return
    columns: show.Columns = {
        "EKS": "eks_name", "VERSION": "kubernetes_version", "HYPERPOD": "hyperpod_name", "IMPORTABLE": "importable",
        "TAG": lambda c: c["tag"] or c["suggested_tag"], "WHY": "why",
    }  # fmt: skip
    show.rows(page["items"], columns, output, empty=f"No clusters in account {page['account']}, {page['region']}.")
