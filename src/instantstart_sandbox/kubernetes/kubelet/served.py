"""Which containers are model servers or routers: what to run for them is the small server of instantstart_sandbox/programs.

Read are the words of a container as its image would read them: vLLM's image puts ``vllm serve`` before them, SGLang's takes them as they
are, SageMaker's inference containers read the environment. What the words themselves mean is the programs' own affair.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import instantstart_sandbox

_ROOT = str(Path(instantstart_sandbox.__file__).parent.parent)
_BOOT = "import sys; sys.path.insert(0, {root!r}); from instantstart_sandbox.programs.{program}.__main__ import main; sys.exit(main())"
#: modules of Python that are one of the two programs
_SERVERS = re.compile(r"^(vllm\.entrypoints\.(openai\.)?api_server|sglang\.launch_server)$")
_ROUTERS = re.compile(r"^sglang_router\.launch_router$")
#: a line of shell that starts one of them
LINE = re.compile(r"(^|[\s;&|(])(vllm\s+serve|sglang\s+serve|sglang-router|smg|python3?\s+-m\s+(vllm\.|sglang\.launch|sglang_router\.))")
VLLM_IMAGE = r"(^|/)(vllm-openai|vllm)(-[a-z]+)?(:|@|$)"
SGLANG_IMAGE = r"(^|/)sglang(:|@|$)"
ROUTER_IMAGE = r"(^|/)(sglang-router|smg)(:|@|$)"
#: AWS's inference containers, and those of Hugging Face; not the inference operator's own parts
INFERENCE_IMAGE = (
    r"(^|/)(?!hyperpod-inference)(djl-inference|text-generation-inference|[a-z-]*(vllm|sglang|tgi|llm|inference)[a-z-]*)(:|@|$)"
)


def launch(program: str, words: list[str]) -> list[str]:
    """The process of one of the two programs (serving, routing): isolated, and without anything but the standard library."""
    return [sys.executable, "-I", "-S", "-c", _BOOT.format(root=_ROOT, program=program), *words]


def of_words(words: list[str]) -> list[str] | None:
    """What to run for a container's whole command; None when it starts neither a server nor a router."""
    first, rest = (words[0].rpartition("/")[2] if words else ""), words[1:]
    if first in ("vllm", "sglang") and rest[:1] == ["serve"]:
        return launch("serving", words)
    if first in ("sglang-router", "smg"):
        return launch("routing", words)
    if not re.match(r"^python(3(\.\d+)?)?$", first):
        return None
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        rest = rest[1:]
    module = rest[1] if rest[:1] == ["-m"] and len(rest) > 1 else ""
    if _SERVERS.match(module):
        return launch("serving", words)
    return launch("routing", words) if _ROUTERS.match(module) else None


def of_vllm_image(arguments: list[str]) -> list[str]:
    """vLLM's image without a command."""
    return of_words(arguments) or launch("serving", ["vllm", "serve", *arguments])


def of_sglang_image(arguments: list[str]) -> list[str] | None:
    """SGLang's image without a command: it runs what it is given."""
    return of_words(arguments)


def of_router_image(arguments: list[str]) -> list[str]:
    """The router's image without a command."""
    return of_words(arguments) or launch("routing", ["sglang-router", "launch", *arguments])


def of_inference_image(arguments: list[str]) -> list[str] | None:
    """A SageMaker inference container: its entrypoint reads the environment."""
    return of_words(arguments) or (launch("serving", ["lmi"]) if arguments in ([], ["serve"]) else None)


def scripts() -> dict[str, list[str]]:
    """Commands that a line of shell may call."""
    routing = {name: [*launch("routing", [name])] for name in ("sglang-router", "smg")}
    return {"vllm": launch("serving", ["vllm"]), "sglang": launch("serving", ["sglang"]), **routing}


def python_script(python: str) -> str:
    """The pods' ``python``: modules that are a server or a router are ours, all else is the interpreter's."""
    serving, routing = shlex.join(launch("serving", ["python3"])), shlex.join(launch("routing", ["python3"]))
    return (
        "#!/bin/sh\n"
        'case "$1 $2" in\n'
        f'"-m vllm.entrypoints."*|"-m sglang.launch_server") exec {serving} "$@";;\n'
        f'"-m sglang_router.launch_router") exec {routing} "$@";;\n'
        f'esac\nexec {shlex.quote(python)} "$@"\n'
    )
