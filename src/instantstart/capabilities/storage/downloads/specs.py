"""What may be asked of downloads. Every description is read by a person in the console and by a model through MCP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, SecretStr

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, Namespace, Target, Within

#: a public mirror of Docker's official image: any image with Python 3.11 or newer will do
IMAGE = "public.ecr.aws/docker/library/python:3.12-slim"
_TOKEN_LIMIT = 500
Glob = Annotated[str, Field(min_length=1, max_length=200, pattern=patterns.HUB_GLOB)]
Quantity = Annotated[str, Field(max_length=20, pattern=patterns.QUANTITY)]


class DownloadModel(Ask):
    """Ask for a model or dataset of the hub in a volume. Asked again for the same folder, only what is missing is fetched."""

    repository: Annotated[
        str,
        Field(
            min_length=1,
            max_length=200,
            pattern=patterns.HUB_REPOSITORY,
            description="Repository on the hub.",
            examples=["Qwen/Qwen3-0.6B"],
        ),
    ]
    kind: Annotated[Literal["model", "dataset"], Field(description="What the repository holds.")] = "model"
    revision: Annotated[
        str, Field(min_length=1, max_length=200, pattern=patterns.HUB_REVISION, description="Branch, tag or commit; pinned to its commit.")
    ] = "main"
    include: Annotated[list[Glob], Field(max_length=50, description="Only files that fit one of these patterns; none: all.")] = []
    exclude: Annotated[list[Glob], Field(max_length=50, description="Not the files that fit one of these patterns.")] = []
    claim_name: Annotated[
        str, Field(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Volume claim to put it in.", examples=["s3-claim"])
    ] = "s3-claim"
    namespace: Namespace = "default"
    folder: Annotated[
        Annotated[str, Field(max_length=300, pattern=patterns.PLAIN_FOLDER), Within] | None,
        Field(description="Folder of the volume; left out: models/ and the name."),
    ] = None
    token_secret: Annotated[
        str | None,
        Field(max_length=253, pattern=patterns.KUBERNETES_NAME, description="Secret of that namespace whose key token is the hub's token."),
    ] = None
    image: Annotated[str, Field(min_length=1, max_length=512, pattern=patterns.PRINTABLE, description="Image with Python 3.11+.")] = IMAGE
    cpu: Annotated[Quantity, Field(description="CPU of the job.")] = "2"
    memory: Annotated[Quantity, Field(description="Memory of the job.")] = "4Gi"
    workers: Annotated[int, Field(ge=1, le=16, description="Files fetched at the same time.")] = 4


def _is_a_token(token: SecretStr) -> SecretStr:
    """One word, once the newline that often ends it is gone. What is said never repeats it."""
    bare = token.get_secret_value().strip()
    if not bare:
        raise ValueError("is empty: give the token that the hub shows under its access tokens")
    if len(bare) > _TOKEN_LIMIT or len(bare.split()) > 1 or not bare.isprintable():
        raise ValueError(f"is no token: one word of at most {_TOKEN_LIMIT} characters")
    return token


class PutHubToken(Ask):
    """A token of the hub, kept as a Kubernetes Secret and nowhere else."""

    model_config = ConfigDict(**Ask.model_config | {"hide_input_in_errors": True})

    token: Annotated[
        SecretStr,
        AfterValidator(_is_a_token),
        Field(description="The token.", json_schema_extra={"minLength": 1, "maxLength": _TOKEN_LIMIT}),
    ]


class DownloadTarget(Target, DownloadModel):
    """model.download with its place."""

    @property
    def place(self) -> str:
        """The folder of the volume, without slashes at its ends."""
        return self.folder or f"{'models' if self.kind == 'model' else 'datasets'}/{self.repository}"


class CancelTarget(Target):
    """download.cancel: which job, and the operation that made it."""

    namespace: str
    job: str
    operation_id: str


def subject(target: DownloadTarget) -> str:
    """What an operation works on: one folder of one volume."""
    return f"download/{target.region}/{target.tag}/{target.namespace}/{target.claim_name}/{target.place}"


def cancel_subject(target: CancelTarget) -> str:
    """One job."""
    return f"download-job/{target.region}/{target.tag}/{target.namespace}/{target.job}"
