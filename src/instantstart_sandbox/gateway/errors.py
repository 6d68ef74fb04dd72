"""The one exception by which a handler answers with an AWS error."""

from __future__ import annotations

from typing import Any


class AwsError(Exception):
    """An AWS error: ``code`` and ``message`` as on the wire, in whatever protocol the caller speaks.

    ``status`` is the HTTP status; 400 means "what the service model says of this code, else 400".
    ``members`` are further members of a modelled error shape (EKS puts ``clusterName`` there, for instance).
    """

    def __init__(self, code: str, message: str, status: int = 400, **members: Any) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status, self.members = code, message, status, members


class ReplyLost(Exception):  # noqa: N818 - it is an event on the wire, not an error of the service
    """The act was done (or not), and the connection is to be closed without an answer."""
