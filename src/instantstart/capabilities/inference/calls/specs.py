"""What may be asked of a served model. It is named by what we list as served; no address is ever taken from a caller."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask

Text = Annotated[str, Field(max_length=200_000)]


class Message(Ask):
    """One message of a chat."""

    role: Literal["system", "user", "assistant", "developer"]
    content: Text


class CallModel(Ask):
    """One question to a served model."""

    api: Annotated[
        Literal["chat", "completions", "embeddings", "json"],
        Field(description="chat, completions and embeddings are OpenAI's; json sends body to path as it is."),
    ] = "chat"
    prompt: Text | None = Field(None, description="The question, the text to go on with, or the text to embed.", examples=["Hello"])
    system: Text | None = Field(None, description="chat: what the model is told first.")
    messages: Annotated[list[Message], Field(max_length=200)] | None = Field(None, description="chat: the whole talk, instead of prompt.")
    inputs: Annotated[list[Text], Field(max_length=256)] | None = Field(None, description="embeddings: several texts, instead of prompt.")
    model: Annotated[str, Field(min_length=1, max_length=300, pattern=patterns.PRINTABLE)] | None = Field(
        None, description="What the server calls the model. Left out: the first that it lists."
    )
    max_tokens: Annotated[int, Field(ge=1, le=32_768, description="chat, completions: most tokens to answer.")] = 256
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(None, description="chat, completions: chance in the answer.")
    path: Annotated[str, Field(max_length=200, pattern=patterns.CALL_PATH)] | None = Field(
        None, description="json: path at the server.", examples=["v1/rerank"]
    )
    method: Annotated[Literal["GET", "POST"], Field(description="json: how it is asked.")] = "POST"
    body: dict[str, Any] | None = Field(None, description="json: what is sent. Else: more fields of the request, such as top_p.")
    timeout_seconds: Annotated[
        int,
        Field(
            ge=1,
            le=600,
            description="Longest silence, and longest whole answer, in real seconds; agents wait 20 at most.",
        ),
    ] = 60
