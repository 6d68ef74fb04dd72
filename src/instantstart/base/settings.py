"""Every setting of the program, from the environment; ``docs/settings.md`` is generated from this table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from instantstart.base import problems

PREFIX = "INSTANTSTART_"


class Settings(BaseModel):
    """One field, one variable: ``data_dir`` is ``INSTANTSTART_DATA_DIR``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path = Field(default=Path.home() / ".instantstart", description="Folder of the database, the first-run token and the logs.")
    host: str = Field(
        default="127.0.0.1", description="Address to listen on. Put a reverse proxy with TLS before anything else than loopback."
    )
    port: int = Field(default=3099, ge=0, le=65535, description="Port of the console, the API and MCP.")
    allowed_hosts: str = Field(default="", description="Extra host names, comma separated, accepted in the Host and Origin headers.")
    database_url: str | None = Field(default=None, description="postgresql://... for several replicas; empty: SQLite in the data folder.")
    replica_id: str = Field(default="single", description="Stable name of this replica when a database URL is set.")
    region: str | None = Field(default=None, description="Default AWS region; empty: the ambient one.")
    clock_rate: float = Field(default=1.0, gt=0, description="Seconds of the world a real second; only the sandbox has more than 1.")
    permissions_boundary: str | None = Field(
        default=None,
        pattern=r"^arn:[a-z-]+:iam::\d{12}:policy/.+$",
        description="ARN of the boundary that every role we make gets; empty: none.",
    )
    tags: str = Field(
        default="",
        pattern=r"^([^=,]{1,128}=[^=,]{0,256}(,[^=,]{1,128}=[^=,]{0,256})*)?$",
        description="More tags for everything we make, as name=value, comma separated, such as CostCenter=4711.",
    )
    bundles_dir: Path | None = Field(default=None, description="Folder of rendered manifest bundles; empty: the one that is shipped.")
    hub_url: str = Field(
        default="https://huggingface.co", pattern=r"^https?://\S+$", description="The model hub, or a mirror with the same API."
    )
    vllm_image: str = Field(
        default="vllm/vllm-openai:v0.26.0",
        pattern=r"^\S+$",
        description="Image of vLLM where a deployment names none. Pin a tag or a digest.",
    )
    sglang_image: str = Field(
        default="lmsysorg/sglang:v0.5.18",
        pattern=r"^\S+$",
        description="Image of SGLang and its router where none is named. Pin a tag or a digest.",
    )
    download_links: bool = Field(default=False, description="Let operators get links that give an object of a bucket to whoever has them.")
    log_level: str = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR.")
    workers: int = Field(default=16, ge=1, le=256, description="Operations that may tick at the same time.")
    drift_check_seconds: float = Field(
        default=300.0,
        ge=0,
        description="Seconds of the world between two background checks of features and identity chains; 0: only when somebody looks.",
    )
    pool_check_seconds: float = Field(
        default=10.0,
        ge=0,
        description="Seconds of the world between two looks at model pools, which replace lost workers of businesses; 0: never.",
    )
    simulated: bool = Field(default=False, description="Say in the console that the world behind is a sandbox.")


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process. Raises Invalid naming each wrong variable."""
    environ = os.environ if environ is None else environ
    names = {name: PREFIX + name.upper() for name in Settings.model_fields}
    given = {name: environ[variable] for name, variable in names.items() if environ.get(variable)}
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        violations = [problems.Violation("/" + names[str(e["loc"][0])], str(e["msg"])) for e in error.errors()]
        told = "; ".join(f"{v.pointer[1:]}: {v.message}" for v in violations)
        raise problems.Invalid("settings.invalid", f"Wrong settings: {told}", fields=violations) from error
