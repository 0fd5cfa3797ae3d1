"""Define the server's errors: a class where code catches it by name, else a ``Fault`` that the base carries.

``server.error_mapping`` makes the reply of each. Knows nothing of FastAPI. Texts of unknown exceptions never reach a
client: they can hold paths or questions.
"""

from __future__ import annotations

from typing import Final

from models.errors import ArrowheadError
from models.errors import Fault as Fault  # for those who add one

# OpenAI's SDKs give up instead of waiting for longer.
MAX_RETRY_AFTER_S: Final = 120

BODY_TOO_LARGE: Final = Fault(413, "request_too_large", "server.max_body_bytes sets the limit")
UPLOAD_TOO_LARGE: Final = Fault(413, "request_too_large", "retrieval.max_upload_bytes sets the limit")
BODY_TOO_SLOW: Final = Fault(408, "request_timeout", "server.slow_client_s sets the time")
HEAD_TOO_LARGE: Final = Fault(431, "request_head_too_large")
# A content type that a form of another site can send.
FORM_OF_ANOTHER_SITE: Final = Fault(403, "forbidden")
# Host header, or address of the request, of another host.
HOST_INVALID: Final = Fault(400, "invalid_host", "server.allowed_hosts lists further names")
FORBIDDEN_ORIGIN: Final = Fault(
    403, "origin_not_allowed", "server.cors_origins lists the web pages that may ask, as https://lab.example"
)
FIRST_KEY_NEEDED: Final = Fault(401, "first_key_needed")
SETUP_REFUSED: Final = Fault(403, "setup_refused")
NOT_GRANTED: Final = Fault(403, "not_granted", "`arrowhead key create` makes a key with other scopes")
CHANGES_REFUSED: Final = Fault(
    403,
    "changes_not_allowed",
    "set retrieval.allow_changes to true, or use arrowhead namespace on the server's machine",
)
MODEL_UNKNOWN: Final = Fault(404, "model_not_found", "GET /v1/models lists them")
TRACE_UNKNOWN: Final = Fault(404, "trace_not_found")
ANSWER_UNKNOWN: Final = Fault(404, "answer_not_found", "the record of a recent answer is at GET /v1/traces/ID")
PASSAGE_UNKNOWN: Final = Fault(404, "passage_not_found")
JOB_UNKNOWN: Final = Fault(404, "job_not_found", "GET /v1/jobs lists those of this key that are kept")
FILE_UNKNOWN: Final = Fault(404, "file_not_found", "GET /v1/files lists those of this key")
STORE_UNKNOWN: Final = Fault(404, "vector_store_not_found", "GET /v1/vector_stores lists those of this key")
BATCH_UNKNOWN: Final = Fault(404, "batch_not_found")
FILES_FULL: Final = Fault(413, "quota_exceeded", "delete files of this key that are no longer needed")
CONVERSATION_UNKNOWN: Final = Fault(404, "conversation_not_found")
ITEM_UNKNOWN: Final = Fault(404, "item_not_found")
RESPONSES_FULL: Final = Fault(413, "quota_exceeded", "delete conversations of this key that are no longer needed")
RESPONSE_NOT_STORED: Final = Fault(404, "response_not_found", "the record of a recent answer is at GET /v1/traces/ID")
REVIEW_UNKNOWN: Final = Fault(404, "review_not_found", "GET /v1/reviews lists those of this key")
REVIEWS_FULL: Final = Fault(413, "quota_exceeded", "delete reviews of this key that are no longer needed")
COLLECTION_UNKNOWN: Final = Fault(404, "collection_not_found", "GET /v1/admin/collections lists them")
COLLECTION_FILES_MISSING: Final = Fault(409, "collection_files_missing", "put them into its folder on the server")
TOOL_FAILED: Final = Fault(502, "tool_failed", retryable=True)
NO_REFERENCES: Final = Fault(404, "no_references", "format=markdown and format=docx give its text")
FORMAT_UNKNOWN: Final = Fault(400, "invalid_value")
UPLOAD_NOT_WRITTEN: Final = Fault(
    507, "upload_not_written", "free disk space where retrieval.data_dir lies, or mend the folder's rights"
)
# Where a command asks what a server alone does.
NO_SERVER: Final = Fault(400, "invalid_request")
PROOF_FAILED: Final = Fault(500, "proof_failed")
KEY_REFUSED: Final = Fault(409, "key_refused", "`arrowhead key list` shows what there is")
QUEUE_FULL: Final = Fault(429, "queue_full", "try again later", retryable=True)
SERVER_FULL: Final = Fault(429, "server_overloaded", "try again later", retryable=True)
# The key has reached its rate, or its share of places.
KEY_FULL: Final = Fault(429, "rate_limit_exceeded", "try again later", retryable=True)

# The process is ending.
SERVER_STOPPING: Final = Fault(
    503, "server_stopping", "ask another server, or this one when it is back", retryable=True
)

UNSUPPORTED_FIELD: Final = Fault(422, "unsupported_parameter")
UNAUTHORIZED: Final = Fault(401, "invalid_api_key", "send Authorization: Bearer KEY", kind="Unauthorized")
SCOPE_INVALID: Final = Fault(422, "invalid_scope")
ENCODER_UNKNOWN: Final = Fault(
    404, "model_not_found", "GET /v1/models lists them; retrieval.encoders and retrieval.cross_encoder add others"
)
# The client disconnected before the reply.
CLIENT_GONE: Final = Fault(499, "client_gone")
ANSWER_TIMEOUT: Final = Fault(
    504, "timeout", "server.request_timeout_s or the header X-Request-Timeout set it; ask for less, or allow more time"
)
# The model that judges evidence cannot be loaded, failed or took too long.
VERIFIER_UNAVAILABLE: Final = Fault(
    503, "verifier_unavailable", "the log has the cause; verifier.model names another model", retryable=True
)


class RequestError(ArrowheadError):
    """Signal that a request cannot be served, for the reason that ``fault`` names; by default an invalid value."""

    fault = Fault(422, "invalid_value")


class EgressRaised(RequestError):
    """Signal an egress mode above that of the key or the server."""

    fault = Fault(403, "egress_not_allowed", "leave arrowhead.egress out, or ask for a lower mode")
