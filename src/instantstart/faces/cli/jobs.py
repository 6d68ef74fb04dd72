"""``instantstart job ...``: training jobs submitted, previewed, looked at, ended; recipes, log rules, kept forms."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from instantstart.base import problems
from instantstart.faces.cli import files, show
from instantstart.faces.cli.agreeing import Yes, begin_agreed, confirm
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.paths import joined
from instantstart.faces.cli.placed import Cluster, Namespace
from instantstart.faces.cli.session import TABLE, DryRun, Output, Wait, chosen_cluster, client
from instantstart.faces.cli.steps import How, Spec, asked, begin, cluster_path, show_plan

app = typer.Typer(help="Training jobs: HyperPod's operator and KubeRay.", no_args_is_help=True)
forms = typer.Typer(help="Forms of jobs that you keep.", no_args_is_help=True)
app.add_typer(forms, name="form")

JobName = Annotated[str, typer.Argument(help="Name of the job.")]
Kind = Annotated[str | None, typer.Option("--kind", help="pytorch, ray_job or ray_cluster; left out: the kind that bears the name.")]
Name = Annotated[str | None, typer.Argument(help="Name of the job; may stand in the file.")]
Image = Annotated[str | None, typer.Option(help="Container image.")]
InstanceType = Annotated[str | None, typer.Option("--type", "--instance-type", help="Type of the nodes, such as ml.p5.48xlarge.")]
Nodes = Annotated[int | None, typer.Option("--nodes", help="How many nodes.")]
Framework = Annotated[
    str | None, typer.Option("--framework", help="pytorch, llama_factory, ms_swift, verl or container. See: job recipes.")
]
Script = Annotated[str | None, typer.Option("--script", help="The script (pytorch, verl).")]
Config = Annotated[str | None, typer.Option("--config-file", help="The framework's own file in the project (llama_factory, ms_swift).")]
Command = Annotated[str | None, typer.Option("--command", help="MS-Swift's command, such as sft.")]
Project = Annotated[str | None, typer.Option("--project", help="Folder of a mounted volume in which the work is done.")]
Mounts = Annotated[list[str] | None, typer.Option("--mount", help="CLAIM:/path, or CLAIM:/path:ro; may be given again.")]
Variables = Annotated[list[str] | None, typer.Option("--env", help="NAME=value; may be given again.")]
Tracking = Annotated[str | None, typer.Option("--tracking", help="MLflow: ARN of a tracking server or app, or an address.")]
Queue = Annotated[str | None, typer.Option("--queue", help="Queue of task governance.")]
Priority = Annotated[str | None, typer.Option("--priority", help="Priority class.")]
IfExists = Annotated[str | None, typer.Option("--if-exists", help="refuse, version or replace.")]
Form = Annotated[str | None, typer.Option("--form", help="Begin with a form that you keep; file and options win over it.")]
Arguments = Annotated[list[str] | None, typer.Argument(help="After --: arguments of the script, or the container's command.")]


@app.command("submit")
def submit(
    name: Name = None, arguments: Arguments = None, image: Image = None, instance_type: InstanceType = None, nodes: Nodes = None,
    framework: Framework = None, script: Script = None, config_file: Config = None, command: Command = None, project: Project = None,
    mount: Mounts = None, env: Variables = None, tracking: Tracking = None, queue: Queue = None, priority: Priority = None,
    if_exists: IfExists = None, kind: Annotated[str | None, typer.Option("--kind", help="pytorch, ray_job or ray_cluster.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Kubernetes namespace.")] = None, form: Form = None,
    cluster: Cluster = None, file: Spec = None, dry_run: DryRun = False, wait: Wait = True, output: Output = TABLE,
    preview: Annotated[bool, typer.Option("--preview", help="Show the exact objects and arguments; change nothing.")] = False,
) -> None:  # fmt: skip
    """Submit a job, and follow it until it runs. Anything else of the request goes into a file (-f)."""
    options = {
        "name": name, "image": image, "instance_type": instance_type, "nodes": nodes, "queue": queue, "priority": priority,
        "if_exists": if_exists, "kind": kind, "namespace": namespace, "mounts": [_mount(text) for text in mount or ()],
        "env": dict(_pair(text) for text in env or ()), "tracking": {"uri": tracking} if tracking else None,
    }  # fmt: skip
    recipe = {"framework": framework, "script": script, "config_file": config_file, "command": command, "project": project}
    with client() as http:
        kept = http.get(_form(form))["content"] if form else {}
        told = {**kept, **asked(file, **{key: value for key, value in options.items() if value != {}})}
        body = {**told, **_recipe(told.get("recipe"), recipe, arguments or ())}
        base = _base(http, cluster)
        if preview:
            _show_preview(http.call("POST", base + "/previews", body=body), output)
            return
        begin(http, "POST", base, How(wait, output, dry_run), body)


@app.command("list")
def list_jobs(
    kind: Annotated[str | None, typer.Option(help="pytorch, ray_job or ray_cluster.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only of this namespace.")] = None,
    status: Annotated[str | None, typer.Option(help="Only in this status, such as running.")] = None,
    contains: Annotated[str | None, typer.Option(help="Only jobs whose name or framework contains this.")] = None,
    sort: Annotated[str | None, typer.Option(help="created, name or status.")] = None,
    limit: Annotated[int, typer.Option(help="Most to show.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="The cursor of the page before.")] = None,
    cluster: Cluster = None,
    output: Output = TABLE,
) -> None:
    """List training jobs of all kinds, newest first."""
    query = {"kind": kind, "namespace": namespace, "status": status, "contains": contains, "sort": sort, "limit": limit, "cursor": cursor}
    with client() as http:
        told = http.get(_base(http, cluster), **query)
    columns: show.Columns = {
        "NAME": "name", "NAMESPACE": "namespace", "KIND": "kind", "STATUS": "status", "NODES": "nodes", "TYPE": "instance_type",
        "READY": lambda j: f"{j['pods_ready']}/{j['pods']}", "RESTARTS": "restarts", "CREATED": lambda j: show.moment(j["created_at"]),
        "BECAUSE": "because",
    }  # fmt: skip
    show.page(told, columns, output, empty="No training jobs.")


@app.command("get")
def get_job(name: JobName, kind: Kind = None, namespace: Namespace = "default", cluster: Cluster = None, output: Output = TABLE) -> None:
    """Show one job: why it does not run, what its recovery has cost, its pods, the last events."""
    with client() as http:
        told = http.get(_one(http, cluster, kind, namespace, name))
    if output is not TABLE:
        show.data(told, output)
        return
    show.thing(_summary(told), output)
    columns: show.Columns = {
        "POD": "name", "ROLE": "role", "RANK": "rank", "PHASE": "phase", "READY": "ready", "NODE": "node", "BECAUSE": "because",
    }  # fmt: skip
    show.rows(told["pods"], columns, output, empty="No pods.")
    events: show.Columns = {"AT": "at", "ABOUT": "about", "REASON": "reason", "MESSAGE": "untrusted_message"}
    show.rows(told["events"][:10], events, output, empty="No events.")


app.command("show", hidden=True)(get_job)  # its name of before


@app.command("delete")
def delete_job(
    name: JobName,
    kind: Kind = None,
    namespace: Namespace = "default",
    cluster: Cluster = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """End a job and its pods, and free what it holds."""
    with client() as http:
        begin_agreed(http, ("DELETE", _one(http, cluster, kind, namespace, name)), How(wait, output, dry_run), yes)


@app.command("resubmit")
def resubmit_job(
    name: JobName,
    new_name: Annotated[str | None, typer.Option("--as", help="Another name; left out: name-2, name-3 ...")] = None,
    if_exists: IfExists = None,
    kind: Kind = None,
    namespace: Namespace = "default",
    cluster: Cluster = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    output: Output = TABLE,
) -> None:
    """Submit a job once more."""
    body = asked(None, name=new_name, if_exists=if_exists)
    with client() as http:
        begin(http, "POST", _one(http, cluster, kind, namespace, name) + "/resubmissions", How(wait, output, dry_run), body)


@app.command("try-rules")
def try_rules(
    log: Annotated[Path, typer.Argument(help="A log of such a job; - reads standard input.")],
    file: Spec = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds-per-line", help="Time between two lines; left out: times are not judged.")
    ] = None,
    output: Output = TABLE,
) -> None:
    """Try the log rules of a file (rules, or a job's log_rules) on a log."""
    told = asked(file)
    rules = told.get("rules") or told.get("log_rules")
    text = files.log_of(log)
    body = {"rules": rules or [], "text": text, **({"seconds_per_line": seconds} if seconds else {})}
    with client() as http:
        result = http.call("POST", "/training-log-rule-trials", body=body)
    columns: show.Columns = {
        "RULE": "name", "MATCHES": "matches", "VERDICTS": lambda r: "; ".join(r["verdicts"]), "REMARKS": lambda r: " ".join(r["remarks"]),
    }  # fmt: skip
    show.page({**result, "items": result["rules"]}, columns, output)


@app.command("recipes")
def list_recipes(
    framework: Annotated[str | None, typer.Argument(help="Show the fields of this one.")] = None, output: Output = TABLE
) -> None:
    """List what a job can run, or the fields of one framework."""
    with client() as http:
        told = http.get("/training-recipes")
    if framework is None:
        columns: show.Columns = {"FRAMEWORK": "framework", "SAYS": "says", "KINDS": lambda r: ", ".join(r["kinds"])}
        show.page(told, columns, output)
        return
    found = next((r for r in told["items"] if r["framework"] == framework), None)
    if found is None:
        known = ", ".join(r["framework"] for r in told["items"])
        raise problems.NotFound("recipe.unknown", f"There is no recipe {framework}; there are {known}.")
    fields: show.Columns = {
        "FIELD": "name",
        "TYPE": "type",
        "NEEDED": "required",
        "CHOICES": lambda f: ", ".join(f["choices"]),
        "SAYS": "says",
    }
    show.page({**found, "items": found["fields"]}, fields, output)


@forms.command("list")
def list_forms(output: Output = TABLE) -> None:
    """List the forms that you keep."""
    with client() as http:
        told = http.get("/saved-forms", kind="training_job")
    show.page(told, {"NAME": "name", "UPDATED": lambda f: show.moment(f["updated_at"])}, output, empty="You keep no forms.")


@forms.command("save")
def save_form(name: Annotated[str, typer.Argument(help="Name of the form.")], file: Spec = None, output: Output = TABLE) -> None:
    """Keep the fields of a file under a name."""
    with client() as http:
        http.call("PUT", _form(name), body={"content": asked(file)})
    show.done(f"Kept as {name}. Use it: instantstart job submit --form {shlex.quote(name)}", {"name": name, "kept": True}, output)


@forms.command("get")
def get_form(name: Annotated[str, typer.Argument(help="Name of the form.")], output: Output = show.Format.yaml) -> None:
    """Show a form that you keep."""
    with client() as http:
        show.data(http.get(_form(name))["content"], show.Format.yaml if output is TABLE else output)


forms.command("show", hidden=True)(get_form)  # its name of before


@forms.command("delete")
def delete_form(name: Annotated[str, typer.Argument(help="Name of the form.")], yes: Yes = False, output: Output = TABLE) -> None:
    """Forget a form; asks before."""
    confirm(f"The saved form {name} is lost; jobs that were submitted with it go on.", yes)
    with client() as http:
        http.call("DELETE", _form(name))
    show.done(f"Forgot {name}.", {"name": name, "kept": False}, output)


def _base(http: Client, cluster: str | None) -> str:
    return cluster_path(chosen_cluster(http, cluster)) + "/training-jobs"


def _one(http: Client, cluster: str | None, kind: str | None, namespace: str, name: str) -> str:
    base = _base(http, cluster)
    return base + joined(kind or _kind(http, base, namespace, name), namespace, name)


def _kind(http: Client, base: str, namespace: str, name: str) -> str:
    """The kind of the job that bears a name. Raises NotFound, or Invalid when jobs of several kinds do."""
    found = sorted({job["kind"] for job in http.pages(base, 1000, namespace=namespace, contains=name) if job["name"] == name})
    if len(found) > 1:
        raise problems.Invalid("training_job.kind", f"{name} is a {' and a '.join(found)}.", hint=f"Say which: --kind {found[0]}")
    if not found:
        raise problems.NotFound("training_job.unknown", f"There is no training job {namespace}/{name}.", hint="List them: job list")
    return str(found[0])


def _form(name: str) -> str:
    return f"/saved-forms/training_job{joined(name)}"


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise problems.Invalid("job.env", f"{text!r} is no variable: write NAME=value.")
    return name, value


def _mount(text: str) -> dict[str, Any]:
    claim, colon, rest = text.partition(":")
    path, _, mode = rest.partition(":")
    if not colon or mode not in ("", "ro"):
        raise problems.Invalid("job.mount", f"{text!r} is no mount: write CLAIM:/path or CLAIM:/path:ro.")
    return {"claim": claim, "path": path, **({"read_only": True} if mode else {})}


def _recipe(told: Any, options: Mapping[str, str | None], arguments: Sequence[str]) -> dict[str, Any]:
    """What the options say of the recipe, over what form and file say; words after -- are its arguments, or its command."""
    said = {key: value for key, value in options.items() if value is not None}
    recipe = {**(told if isinstance(told, dict) else {}), **said}
    if not recipe and not arguments:
        return {}
    recipe.setdefault("framework", "pytorch" if "script" in recipe else "container")
    if arguments:
        recipe["command" if recipe["framework"] == "container" else "arguments"] = list(arguments)
    return {"recipe": recipe}


def _summary(told: Mapping[str, Any]) -> dict[str, Any]:
    job, budget, why = told["job"], told["budget"] or {}, told["why"] or {}
    spent = {name: f"{b['used']} of {b['limit']} used" for name, b in budget.items() if isinstance(b, dict) and b["limit"] is not None}
    return {
        "name": f"{job['namespace']}/{job['name']} ({job['kind']})",
        "status": job["status"],
        "why": why.get("text"),
        "next_step": why.get("next_step"),
        "nodes": f"{job['nodes']} x {job['instance_type']}, {job['accelerators']} accelerators",
        "recovery": spent or None,
        "held": f"{told['held']['pods']} pods still hold {told['held']['accelerators']} accelerators" if told["held"] else None,
        "image": told["image"],
        "mounts": told["mounts"],
        "tracking": told["tracking"],
        "queue": job["queue"],
        "started": show.moment(job["started_at"]),
        "ended": show.moment(job["ended_at"]),
        "unknown": told["unknown"],
    }


def _show_preview(told: Mapping[str, Any], output: show.Format) -> None:
    """The findings and arguments on standard error, the job as YAML: it can be kept in a file. Of our scripts only the name is told."""
    if output is not TABLE:
        show.data(told, output)
        return
    show_plan({"arguments": [json.dumps(told["argv"], ensure_ascii=False)], "findings": told["findings"]}, TABLE, note=True)
    for each in told["objects"]:
        if each["kind"] == "ConfigMap":
            show.note(f"It also gets the ConfigMap {each['metadata']['name']} with the entry scripts (whole: -o json).")
            continue
        sys.stdout.write("---\n")
        show.data(each, show.Format.yaml)
