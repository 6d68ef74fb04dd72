"""The console's files when they are built, else a page that says how to build them."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse, HTMLResponse, Response

import instantstart
from instantstart.faces.api.problems import HttpProblem

_UNBUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>InstantStart</title></head>
<body>
<h1>InstantStart is running</h1>
<p>The web console is not part of this build. In the source folder, with Node.js, run:</p>
<pre>make ui</pre>
<p>and reload this page. The REST API (/api/v1, described at /openapi.json), the command line
(<code>instantstart --help</code>) and MCP (/mcp) work without it.</p>
</body></html>
"""
_RESERVED = ("api", "mcp", "openapi.json", "metrics", "healthz", "readyz")


def web_folder() -> Path:
    """Where the build puts the console."""
    return Path(instantstart.__file__).parent / "web"


def install(app: FastAPI, folder: Path) -> None:
    """Serve ``folder`` below everything else: a file where there is one, the console's page for its own addresses."""
    router = APIRouter()
    root = folder.resolve()

    @router.api_route("/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
    def console(path: str) -> Response:
        if path.split("/", 1)[0] in _RESERVED:
            raise HttpProblem(404, hint=f"There is nothing at {f'/{path}'[:200]}; every address is in /openapi.json.")
        return _answer(root, path)

    app.include_router(router)


def _answer(root: Path, path: str) -> Response:
    index = root / "index.html"
    if not index.is_file():
        return HTMLResponse(_UNBUILT, headers={"Cache-Control": "no-store"})
    wanted = _inside(root, path)
    if wanted is not None:
        forever = path.startswith("assets/")  # their names carry a hash of the content
        return FileResponse(wanted, headers={"Cache-Control": "public, max-age=31536000, immutable" if forever else "no-cache"})
    if path.startswith("assets/"):
        raise HttpProblem(404)
    return FileResponse(index, headers={"Cache-Control": "no-cache"})


def _inside(root: Path, path: str) -> Path | None:
    """The file at ``path`` if it is one and lies in ``root``, whatever dots or links the path has."""
    if not path or "\x00" in path:
        return None
    wanted = (root / path).resolve()
    return wanted if wanted.is_relative_to(root) and wanted.is_file() else None
