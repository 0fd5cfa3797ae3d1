"""Describe the reply to a failed request: OpenAI's error object and its headers.

Knows no error by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

STOPPING: Final = "server_stopping"


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """Hold the status and content of an error reply.

    ``retry_after_s`` None sends no header.
    """

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None

    @property
    def body(self) -> dict[str, Any]:
        """Return OpenAI's error object."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return {"error": error}

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that say when, and whether, to retry."""
        found = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        if self.status in {408, 504}:
            # OpenAI's SDKs would send it again at once, into the same deadline.
            found["X-Should-Retry"] = "false"
        if self.code == STOPPING:
            found["Connection"] = "close"
        return found
