"""``instantstart volume|model|object|image ...``: what pods mount, what lies there, and what is fetched from the hub."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from instantstart.base import problems
from instantstart.faces.cli import show
from instantstart.faces.cli.agreeing import Yes, begin_agreed, begin_costly
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.paths import joined, part
from instantstart.faces.cli.placed import Cluster, Cursor, Limit, Namespace
from instantstart.faces.cli.session import TABLE, DryRun, Output, Wait, chosen_cluster, client
from instantstart.faces.cli.steps import How, Spec, asked, begin, cluster_path

volumes = typer.Typer(help="Volumes: S3 buckets and FSx for Lustre as claims that pods name.", no_args_is_help=True)
models = typer.Typer(help="Models and datasets of the hub, downloaded into a volume.", no_args_is_help=True)
objects = typer.Typer(help="What buckets hold.", no_args_is_help=True)
images = typer.Typer(help="Container images in this account's ECR.", no_args_is_help=True)

ClaimArgument = Annotated[str, typer.Argument(help="Name of the claim.")]
BucketOption = Annotated[str | None, typer.Option("--bucket", help="S3 bucket; left out: the cluster's data bucket.")]


def _base(http: Client, cluster: str | None) -> str:
    return cluster_path(chosen_cluster(http, cluster))


def _claim(http: Client, cluster: str | None, namespace: str, claim: str) -> str:
    return f"{_base(http, cluster)}/volumes{joined(namespace, claim)}"


@volumes.command("list")
def list_volumes(
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only of this namespace.")] = None,
    kind: Annotated[str | None, typer.Option(help="s3, fsx or other.")] = None,
    contains: Annotated[str | None, typer.Option(help="Only claims that contain this.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    cluster: Cluster = None,
    output: Output = TABLE,
) -> None:
    """List volume claims with what they show and who uses them."""
    query = {"namespace": namespace, "kind": kind, "contains": contains, "limit": limit, "cursor": cursor}
    with client() as http:
        told = http.get(_base(http, cluster) + "/volumes", **query)
    columns: show.Columns = {
        "NAMESPACE": "namespace", "CLAIM": "claim", "KIND": "kind", "PHASE": "phase", "SHOWS": "shows", "SIZE": "size",
        "PODS": lambda v: len(v["pods"]),
    }  # fmt: skip
    show.page(told, columns, output, empty="No volumes.")


@volumes.command("get")
def get_volume(claim: ClaimArgument, namespace: Namespace = "default", cluster: Cluster = None, output: Output = TABLE) -> None:
    """Show one claim: what it shows, how it is mounted, who uses it."""
    with client() as http:
        show.thing(http.get(_claim(http, cluster, namespace, claim)), output)


@volumes.command("add-s3")
def add_s3(
    claim: ClaimArgument,
    bucket: BucketOption = None,
    prefix: Annotated[str | None, typer.Option(help="Only this folder of the bucket; ends with a slash.")] = None,
    namespace: Namespace = "default",
    read_only: Annotated[bool | None, typer.Option("--read-only", help="Mount for reading only.")] = None,
    uid: Annotated[int | None, typer.Option(help="User that files appear to belong to.")] = None,
    gid: Annotated[int | None, typer.Option(help="Group that files appear to belong to.")] = None,
    cache: Annotated[int | None, typer.Option("--cache", help="GiB of objects kept on the node.")] = None,
    cluster: Cluster = None,
    file: Spec = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Mount an S3 bucket, or a folder of it."""
    body = asked(
        file, claim_name=claim, namespace=namespace, bucket=bucket, prefix=prefix, read_only=read_only, uid=uid, gid=gid, cache_gib=cache
    )
    with client() as http:
        begin(http, "POST", _base(http, cluster) + "/volumes/s3", How(wait, output, dry_run), body)


@volumes.command("add-fsx")
def add_fsx(
    claim: ClaimArgument,
    file_system: Annotated[str | None, typer.Option("--file-system", help="Id of a file system that is there.")] = None,
    size: Annotated[int | None, typer.Option("--size", help="GiB of a new one: 1200 or a multiple of 2400.")] = None,
    throughput: Annotated[int | None, typer.Option(help="MB/s for each TiB of a new one: 125, 250, 500 or 1000.")] = None,
    zone: Annotated[str | None, typer.Option(help="Zone of a new one, name or id.")] = None,
    namespace: Namespace = "default",
    cluster: Cluster = None,
    file: Spec = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Mount an FSx for Lustre file system: one that is there, or a new one."""
    body = asked(file, claim_name=claim, namespace=namespace, file_system_id=file_system, size_gib=size, throughput=throughput, zone=zone)
    with client() as http:
        begin_costly(http, _base(http, cluster) + "/volumes/fsx", How(wait, output, dry_run), yes, body)


@volumes.command("remove")
def remove_volume(
    claim: ClaimArgument,
    namespace: Namespace = "default",
    delete_file_system: Annotated[bool, typer.Option("--delete-file-system", help="Also delete the file system made for it.")] = False,
    cluster: Cluster = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Remove a claim and its volume; the bucket or file system keeps its data."""
    how = How(wait, output, dry_run, {"delete_file_system": delete_file_system or None})
    with client() as http:
        begin_agreed(http, ("DELETE", _claim(http, cluster, namespace, claim)), how, yes)


@volumes.command("file-systems")
def list_file_systems(cluster: Cluster = None, output: Output = TABLE) -> None:
    """List the FSx for Lustre file systems of the region, those that fit first."""
    with client() as http:
        told = http.get(_base(http, cluster) + "/file-systems")
    columns: show.Columns = {"ID": "id", "STATUS": "status", "GIB": "size_gib", "FITS": "fits", "CLAIM": "claim", "BECAUSE": "because"}
    show.page(told, columns, output, empty="No file systems.")


@models.command("download")
def download(
    repository: Annotated[str, typer.Argument(help="Repository on the hub: owner/name.")],
    dataset: Annotated[bool, typer.Option("--dataset", help="It is a dataset, not a model.")] = False,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit.")] = None,
    include: Annotated[list[str] | None, typer.Option(help="Only files that fit; may be given again.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Not the files that fit; may be given again.")] = None,
    claim: Annotated[str | None, typer.Option("--claim", help="Volume claim to put it in.")] = None,
    namespace: Namespace = "default",
    folder: Annotated[str | None, typer.Option(help="Folder of the volume.")] = None,
    token_secret: Annotated[str | None, typer.Option("--token-secret", help="Secret with the hub's token.")] = None,
    cluster: Cluster = None,
    file: Spec = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Download a model or dataset into a volume; what is complete there is not fetched again."""
    body = asked(
        file, repository=repository, kind="dataset" if dataset else None, revision=revision, include=include, exclude=exclude,
        claim_name=claim, namespace=namespace, folder=folder, token_secret=token_secret,
    )  # fmt: skip
    with client() as http:
        begin(http, "POST", _base(http, cluster) + "/downloads", How(wait, output, dry_run), body)


@models.command("downloads")
def list_downloads(limit: Limit = 50, cursor: Cursor = None, cluster: Cluster = None, output: Output = TABLE) -> None:
    """List downloads, newest first, with their progress."""
    with client() as http:
        told = http.get(_base(http, cluster) + "/downloads", limit=limit, cursor=cursor)
    columns: show.Columns = {
        "OPERATION": "operation_id", "REPOSITORY": "repository", "STATUS": "status",
        "MIB": lambda d: f"{d['done_mib']}/{d['total_mib']}" if d["total_mib"] else "", "CLAIM": "claim", "FOLDER": "folder",
    }  # fmt: skip
    show.page(told, columns, output, empty="No downloads.")


@models.command("cancel")
def cancel_download(
    operation: Annotated[str, typer.Argument(help="The operation that downloads.")],
    cluster: Cluster = None,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """End a download; files that are complete stay."""
    with client() as http:
        begin(http, "DELETE", f"{_base(http, cluster)}/downloads/{part(operation)}", How(wait, output))


@models.command("list")
def list_models(cluster: Cluster = None, output: Output = TABLE) -> None:
    """List what downloads completed in the mounted buckets."""
    with client() as http:
        told = http.get(_base(http, cluster) + "/models")
    columns: show.Columns = {
        "REPOSITORY": "repository", "KIND": "kind", "COMMIT": lambda m: m["commit"][:12], "FILES": "files", "BYTES": "bytes",
        "CLAIM": "claim", "FOLDER": "folder",
    }  # fmt: skip
    show.page(told, columns, output, empty="Nothing is there.")


@models.command("token")
def put_token(
    secret: Annotated[str, typer.Argument(help="Name of the Secret to keep it in.")],
    namespace: Namespace = "default",
    cluster: Cluster = None,
    output: Output = TABLE,
) -> None:
    """Keep a token of the hub, read from standard input, as a Kubernetes Secret and nowhere else."""
    token = typer.prompt("Token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read().strip()
    if not token:
        hint = "Pipe it in (instantstart model token NAME < file), or call this at a terminal to be asked."
        raise problems.Invalid("hub.token_empty", "No token was given: standard input was empty.", hint=hint)
    with client() as http:
        path = f"{_base(http, cluster)}/hub-tokens{joined(namespace, secret)}"
        told = http.call("PUT", path, body={"token": token})
    show.done(f"Kept in the Secret {told['namespace']}/{told['secret']}.", told, output)


@objects.command("list")
def list_objects(
    prefix: Annotated[str, typer.Argument(help="Folder to look into; ends with a slash.")] = "",
    bucket: BucketOption = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    cluster: Cluster = None,
    output: Output = TABLE,
) -> None:
    """List folders and objects of a bucket."""
    with client() as http:
        told = http.get(_base(http, cluster) + "/objects", prefix=prefix, bucket=bucket, limit=limit, cursor=cursor)
    if output is not TABLE:
        show.data(told, output)
        return
    found = [{"key": f["prefix"], "size_bytes": "", "modified_at": ""} for f in told["folders"]] + told["objects"]
    show.page({**told, "items": found}, {"KEY": "key", "BYTES": "size_bytes", "MODIFIED": "modified_at"}, output, empty="Nothing is there.")


@images.command("repositories")
def list_repositories(
    contains: Annotated[str | None, typer.Option(help="Only names that contain this.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    cluster: Cluster = None,
    output: Output = TABLE,
) -> None:
    """List ECR repositories."""
    with client() as http:
        told = http.get(_base(http, cluster) + "/image-repositories", contains=contains, limit=limit, cursor=cursor)
    show.page(told, {"NAME": "name", "URI": "uri"}, output, empty="No repositories.")


@images.command("list")
def list_images(
    repository: Annotated[str, typer.Argument(help="Name of the ECR repository.")], limit: Limit = 50, cluster: Cluster = None,
    output: Output = TABLE,
) -> None:  # fmt: skip
    """List the images of a repository, newest first."""
    with client() as http:
        told = http.get(_base(http, cluster) + "/images", repository=repository, limit=limit)
    show.page(told, {"REFERENCE": "reference", "TAGS": lambda i: ", ".join(i["tags"]), "BYTES": "size_bytes"}, output, empty="No images.")


@images.command("check")
def check_image(
    image: Annotated[str, typer.Argument(help="The image's reference.")], cluster: Cluster = None, output: Output = TABLE
) -> None:
    """Say whether an image is there. Exit status 1 when it is not."""
    with client() as http:
        told = http.get(_base(http, cluster) + "/images/check", image=image)
    show.thing(told, output)
    raise typer.Exit(1 if told["level"] == "fail" else 0)
