"""The command line: a client of the REST API, and the place from which the server is started.

Exit status: 0 done, 1 the operation (or the server) failed, 2 wrong use or invalid request, 3 unreachable or not allowed.
No traceback ever reaches the terminal.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

import instantstart
from instantstart.base import problems
from instantstart.faces.cli import (
    access,
    agents,
    audit,
    clusters,
    creating,
    database,
    demo,
    diagnose,
    features,
    fleet,
    groups,
    inference,
    jobs,
    karpenter,
    logs,
    mlflow,
    nodes,
    operations,
    pools,
    serving,
    session,
    show,
    storage,
    support,
    tokens,
    usage,
)

OK, FAILED, USAGE, REFUSED = 0, 1, 2, 3
INTERRUPTED = 130
_STATUS: Mapping[type[problems.Problem], int] = {
    problems.Invalid: USAGE,
    problems.NotFound: USAGE,
    problems.Denied: REFUSED,
    problems.Unauthenticated: REFUSED,
    problems.Unreachable: REFUSED,
    problems.Busy: REFUSED,
}


@dataclass(frozen=True)
class Launchers:
    """What starts a process of ours. Given by the composition root: this face itself may not know the product."""

    serve: Callable[[Mapping[str, Any]], int]
    mcp: Callable[[str, str | None, str | None], int]
    keeper: database.Keeper


app = typer.Typer(
    name="instantstart",
    help="SageMaker HyperPod clusters on EKS: make, look at, mend, delete.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(clusters.app, name="cluster")
app.add_typer(groups.app, name="group")
app.add_typer(groups.plans, name="plan")
app.add_typer(nodes.app, name="node")
app.add_typer(jobs.app, name="job")
app.add_typer(mlflow.app, name="mlflow")
app.add_typer(operations.app, name="operation")
app.add_typer(fleet.app, name="fleet")
app.add_typer(karpenter.app, name="karpenter")
app.add_typer(features.app, name="feature")
app.add_typer(diagnose.app, name="diagnose")
app.add_typer(storage.volumes, name="volume")
app.add_typer(storage.models, name="model")
app.add_typer(inference.served, name="served")
app.add_typer(inference.endpoints, name="endpoint")
app.add_typer(serving.deployments, name="deployment")
app.add_typer(pools.app, name="pool")
app.add_typer(serving.routers, name="router")
app.add_typer(serving.autoscalers, name="autoscaler")
app.add_typer(storage.objects, name="object")
app.add_typer(storage.images, name="image")
app.add_typer(agents.app, name="agent")
app.add_typer(support.app, name="support")
app.add_typer(database.app, name="database")
app.add_typer(tokens.app, name="token")
app.add_typer(access.context, name="context")
app.add_typer(access.sessions, name="session")
app.add_typer(audit.app, name="audit")
app.command("preflight")(creating.preflight)
app.command("demo")(demo.demo)
app.command("login")(access.login)
app.command("logout")(access.logout)
app.command("logs")(logs.logs)
app.command("me")(access.me)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """SageMaker HyperPod clusters on EKS: make, look at, mend, delete."""
    if version:
        sys.stdout.write(instantstart.__version__ + "\n")
        raise typer.Exit(OK)


@app.command()
def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder of the database and the first token.")] = None,
) -> None:
    """Run the control plane: console, API and MCP. Everything else is set by INSTANTSTART_* variables."""
    launchers: Launchers | None = context.obj
    if launchers is None:
        raise problems.Invalid("server.no_launcher", "Start the server with: python -m instantstart serve")
    raise typer.Exit(launchers.serve({"host": host, "port": port, "data_dir": data_dir}))


@app.command()
def mcp(
    context: typer.Context,
    toolsets: Annotated[
        str | None, typer.Option(help="read, operate, admin, capacity, features, or all; comma separated. Usual: read,operate.")
    ] = None,
) -> None:
    """Serve MCP on standard input and output, as a thin client of the running control plane."""
    launchers: Launchers | None = context.obj
    if launchers is None:
        raise problems.Invalid("server.no_launcher", "Start it with: python -m instantstart mcp")
    where = session.context()
    raise typer.Exit(launchers.mcp(where.url, where.token, toolsets))


def main(launchers: Launchers | None = None) -> None:
    """Run the arguments of this process and exit. Entered without launchers, hand what starts a process to the program."""
    if launchers is None and sys.argv[1:2] in (["serve"], ["mcp"], ["database"]):
        os.execv(sys.executable, [sys.executable, "-m", "instantstart", *sys.argv[1:]])  # noqa: S606 - no shell is wanted
    sys.exit(run(sys.argv[1:], launchers))


def run(arguments: Sequence[str], launchers: Launchers | None = None) -> int:
    """Run one command line and answer its exit status. This is the boundary: whatever happens, a sentence and a status."""
    try:
        ended = typer.main.get_command(app).main(args=list(arguments), prog_name="instantstart", obj=launchers, standalone_mode=False)
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else FAILED
    except usage.Wrong as wrong:
        return _explain(wrong, arguments)
    except typer.Abort as abort:
        interrupted = isinstance(abort.__cause__, KeyboardInterrupt)
        show.note("Stopped." if interrupted else "Nothing was answered; nothing was changed.")
        return INTERRUPTED if interrupted else FAILED
    except problems.Problem as problem:
        show.problem(problem, wanted_form(arguments))
        return next((code for kind, code in _STATUS.items() if isinstance(problem, kind)), FAILED)
    except KeyboardInterrupt:
        show.note("Stopped.")
        return INTERRUPTED
    return ended if isinstance(ended, int) else OK


def _explain(wrong: Exception, arguments: Sequence[str]) -> int:
    """What a wrong command line is told; a bare group shows its help."""
    if type(wrong).__name__ == "NoArgsIsHelpError":
        show.note(str(wrong))
    else:
        show.problem(usage.refusal(wrong), wanted_form(arguments))
    return USAGE


def wanted_form(arguments: Sequence[str]) -> show.Format:
    """The output format asked for, also when the rest of the line is wrong."""
    words = [*arguments, ""]
    for word, after in itertools.pairwise(words):
        value = after if word in ("-o", "--output") else word.removeprefix("--output=") if word.startswith("--output=") else ""
        if value in (show.Format.json, show.Format.yaml):
            return show.Format(value)
    return show.Format.table
