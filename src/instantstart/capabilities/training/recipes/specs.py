"""What may be asked of recipes and saved forms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask

#: what a form can be of
FormKind = Literal["training_job", "inference_endpoint", "model_deployment"]
FormName = Annotated[str, Field(min_length=1, max_length=100, pattern=patterns.PRINTABLE)]


class PutSavedForm(Ask):
    """saved_form_put: what was filled in. Secrets do not belong here: name the Secret."""

    content: Annotated[
        dict[Annotated[str, Field(min_length=1, max_length=200, pattern=patterns.PRINTABLE)], JsonValue],
        Field(max_length=200, description="The fields as they were filled in; they need not be complete."),
    ]
