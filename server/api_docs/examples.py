"""Provide one complete, valid example for each kind of request body; ``/docs`` starts with it."""

from __future__ import annotations

from typing import Any, Final

from server.api_docs.running import Running

Schema = dict[str, Any]
QUESTION: Final = "What is the official gene symbol of LMP10?"
_TEXT: Final = "PSMB10 is a gene."
# Example values that several kinds of body share.
FIELDS: Final[Schema] = {
    "messages": [{"role": "user", "content": QUESTION}],
    "input": QUESTION,
    "prompt": "The official gene symbol of LMP10 is",
    "max_tokens": 64,
}


def add_examples(schemas: dict[str, Schema], running: Running) -> None:
    """Add an example to the schema of each request body, in place."""
    bodies: dict[str, Schema] = {
        "ChatRequest": {"model": running.model, "messages": FIELDS["messages"]},
        "CompletionRequest": {"model": running.model, "prompt": FIELDS["prompt"]},
        "ResponseRequest": {"model": running.model, "input": FIELDS["input"]},
        "TokenizeRequest": {"prompt": "PSMB10"},
        "DetokenizeRequest": {"tokens": [1]},
        "EmbeddingsRequest": {"model": running.encoder, "input": _TEXT},
        "RerankRequest": {"query": QUESTION, "documents": ["Asthma is a disease.", _TEXT]},
        "SearchBody": {"query": "asthma"},
        "NamespaceBody": {"name": "mine"},
        "DocumentsBody": {"documents": [{"id": "1", "text": _TEXT}]},
        "RemoveBody": {"ids": ["1"]},
        "QueryBody": {"term": "asthma"},
    }
    for name, body in bodies.items():
        schemas[name]["examples"] = [body]
