"""Define the JSON schemas of reply bodies.

Replies may have further members; the members named here are always present.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from models.decoding.types import LoopFinish
from server.engine.lifecycle import State
from server.error_mapping import TABLE

Schema = dict[str, Any]
_TEXT: Final[Schema] = {"type": "string"}
_WHOLE: Final[Schema] = {"type": "integer"}
_NUMBER: Final[Schema] = {"type": "number"}
_YES_NO: Final[Schema] = {"type": "boolean"}
_EVENTS: Final = (
    *(f"response.{state}" for state in ("created", "in_progress", "completed", "incomplete", "failed")),
    *(f"response.output_item.{what}" for what in ("added", "done")),
    *(f"response.web_search_call.{what}" for what in ("in_progress", "searching", "completed")),
    *(f"response.reasoning_summary_part.{what}" for what in ("added", "done")),
    *(f"response.reasoning_summary_text.{what}" for what in ("delta", "done")),
    *(f"response.content_part.{what}" for what in ("added", "done")),
    *(f"response.output_text.{what}" for what in ("delta", "annotation.added", "done")),
    "error",
)


def error_schema() -> Schema:
    """Return the schema of an error, whose ``code`` is one of the error table's codes."""
    codes = sorted({code for _, _, code in TABLE.values()} | {"unknown_url"})
    types = sorted({kind for _, kind, _ in TABLE.values()})
    return _object(
        error=_object(
            message=_TEXT,
            type={"enum": types},
            param={"type": ["string", "null"], "description": "the field that is at fault"},
            code={"enum": codes},
        )
    )


def reply_schemas() -> dict[str, Schema]:
    """Return the schemas of all replies by the names that operations use."""
    return {
        "Error": error_schema(),
        "Health": _object(status={"const": "ok"}),
        "Ready": _ready(["ready"]),
        "NotReady": {
            "anyOf": [_ready([*(name for name in get_args(State) if name != "ready"), "draining"]), ref("Error")]
        },
        "Version": _object(version=_TEXT, python=_TEXT, engine=_TEXT, model=_TEXT, commit={"type": ["string", "null"]}),
        "Usage": _usage(),
        "ChatCompletion": _chat(),
        "ChatCompletionChunk": _chunk("chat.completion.chunk", delta={"type": "object"}),
        "Completion": _completion(),
        "CompletionChunk": _chunk("text_completion", text=_TEXT),
        "Response": _response(),
        "ResponseEvent": _object(type={"enum": list(_EVENTS)}, sequence_number=_WHOLE),
        "Tokens": _tokens(),
        "Detokenized": _object(prompt=_TEXT),
        "Model": _model(),
        "ModelList": _list_of("Model"),
        "Embeddings": _embeddings(),
        "Ranking": _object(id=_TEXT, model=_TEXT, results=_array(_object(index=_WHOLE, relevance_score=_NUMBER))),
        "SearchResult": _search(),
        "Passage": {"type": "object"},
        "Namespace": _object(object={"const": "namespace"}, name=_TEXT),
        "NamespaceList": _list_of("Namespace"),
        "Job": _job(),
        "JobList": _list_of("Job"),
        "Trace": _object(id=_TEXT, object=_TEXT, model=_TEXT, created=_WHOLE, choices=_array({"type": "object"})),
    }


def _object(**members: Schema) -> Schema:
    return {"type": "object", "properties": members, "required": list(members)}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _list_of(name: str) -> Schema:
    return _object(object={"const": "list"}, data=_array(ref(name)))


def _usage() -> Schema:
    schema = _object(
        prompt_tokens=_WHOLE,
        completion_tokens=_WHOLE,
        total_tokens=_WHOLE,
        prompt_tokens_details=_object(cached_tokens=_WHOLE),
    )
    return schema | {"description": "completion_tokens were written by the model; replies put in count as prompt"}


def _extra() -> Schema:
    ends = list(get_args(LoopFinish))
    call = _object(url=_TEXT, status=_TEXT, summary=_TEXT)
    return _object(
        trace_id=_TEXT,
        answer={"type": "string", "description": "bare: without reference list and markers"},
        finish_reason={"enum": ends},
        calls=_array(call),
        egress={"type": "string", "description": "what left this machine for the answer, in words"},
    )


def _chat() -> Schema:
    message = _object(
        role={"const": "assistant"},
        content=_TEXT,
        annotations={"type": "array", "items": {"type": "object"}, "description": "url_citation: title, url, place"},
        arrowhead=_extra(),
    )
    choice = _object(index=_WHOLE, message=message, finish_reason={"enum": ["stop", "length"]})
    return _object(
        id=_TEXT,
        object={"const": "chat.completion"},
        created=_WHOLE,
        model=_TEXT,
        choices=_array(choice),
        usage=ref("Usage"),
    )


def _completion() -> Schema:
    choice = _object(index=_WHOLE, text=_TEXT, finish_reason={"enum": ["stop", "length"]}, arrowhead=_extra())
    return _object(
        id=_TEXT,
        object={"const": "text_completion"},
        created=_WHOLE,
        model=_TEXT,
        choices=_array(choice),
        usage=ref("Usage"),
    )


def _chunk(kind: str, **members: Schema) -> Schema:
    finish = {"enum": [None, "stop", "length"]}
    choice = _object(index=_WHOLE, **members, finish_reason=finish)
    return _object(id=_TEXT, object={"const": kind}, created=_WHOLE, model=_TEXT, choices=_array(choice))


def _response() -> Schema:
    usage = _object(input_tokens=_WHOLE, output_tokens=_WHOLE, total_tokens=_WHOLE)
    item = _object(id=_TEXT, type={"enum": ["message", "reasoning", "web_search_call"]}, status=_TEXT)
    return _object(
        id=_TEXT,
        object={"const": "response"},
        created_at=_WHOLE,
        status={"enum": ["completed", "incomplete"]},
        incomplete_details={"type": ["object", "null"]},
        model=_TEXT,
        output=_array(item),
        store={"const": False},
        usage={"anyOf": [usage, {"type": "null"}]},
        arrowhead=_extra(),
    )


def _tokens() -> Schema:
    texts = {"type": ["array", "null"], "items": _TEXT, "description": "with return_token_strs"}
    return _object(count=_WHOLE, max_model_len=_WHOLE, tokens=_array(_WHOLE), token_strs=texts)


def _ready(states: list[str]) -> Schema:
    return _object(
        status={"enum": states},
        model=_TEXT,
        seconds=_NUMBER,
        egress=_TEXT,
        egress_profile=_TEXT,
        egress_allows=_array(_TEXT),
        left={"type": "string", "description": "what left this machine since the start, in words"},
        in_flight=_WHOLE,
        waiting=_WHOLE,
        since={"type": "integer", "description": "Unix time at which the state began"},
        restarts=_WHOLE,
    )


def _model() -> Schema:
    return _object(
        id=_TEXT,
        object={"const": "model"},
        created=_WHOLE,
        owned_by=_TEXT,
        ready=_YES_NO,
        description=_TEXT,
        base=_TEXT,
        method=_TEXT,
        licence=_TEXT,
        max_model_len=_WHOLE,
    )


def _embeddings() -> Schema:
    vector = {"anyOf": [_array(_NUMBER), {"type": "string", "description": "base64 of float32, little-endian"}]}
    return _object(
        object={"const": "list"},
        model=_TEXT,
        data=_array(_object(object={"const": "embedding"}, index=_WHOLE, embedding=vector)),
        usage=_object(prompt_tokens=_WHOLE, total_tokens=_WHOLE),
        arrowhead=_object(truncated=_array(_WHOLE)),
    )


def _search() -> Schema:
    hits = _array({"type": "object"})
    info = _object(retriever=_TEXT, namespaces=_array(_TEXT), waiting={"type": "object"})
    one = _object(object={"const": "list"}, data=hits, arrowhead=info)
    many = _object(object={"const": "list"}, results=_array(_object(data=hits)), arrowhead=info)
    return {"anyOf": [one, many], "description": "data for query, results for queries, one list each"}


def _job() -> Schema:
    return _object(
        id=_TEXT,
        object={"const": "job"},
        kind=_TEXT,
        namespace=_TEXT,
        state={"enum": ["queued", "running", "done", "failed", "cancelled"]},
        cancelling=_YES_NO,
        created=_WHOLE,
        started={"type": ["integer", "null"]},
        finished={"type": ["integer", "null"]},
        progress={"type": ["object", "null"]},
        result={"type": ["object", "null"]},
        error={"type": ["object", "null"]},
    )
