"""Add to the body schemas what the models cannot express: rules over several fields, and unused-only fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from models.engines.base import ServesOpenAi
from models.errors import ArrowheadError
from server.api.openai import tokenize as of_tokens
from server.api.openai.schemas import IGNORED, NEUTRAL
from server.api.responses import schemas as of_responses
from server.api.vllm_passthrough.dispatch import NEED_TEMPLATE
from server.methods.shared.generation import uses_chat_template
from server.version import installed_version
from server.wiring.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Hold the facts about the running server that the OpenAPI document depends on.

    - ``needs_key``: requests without a key are refused.
    - ``vocabulary``: number of tokens of the served model, None while the model is not loaded.
    - ``has_turns``: the model formats chats with a template.
    - ``layer_model``: name of the model that the engine's own OpenAI layer serves, "" where there is no layer or the
      engine is not loaded.
    - ``model`` and ``encoder``: names used in examples.
    """

    version: str
    needs_key: bool
    max_choices: int = 8
    vocabulary: int | None = None
    has_turns: bool = True
    layer_model: str = ""
    model: str = "model"
    encoder: str = "encoder"

    def is_passed_on(self, path: str) -> bool:
        """Return whether the engine's layer answers plain-model requests for ``path``, provided it has such a route."""
        return bool(self.layer_model) and (self.has_turns or path not in NEED_TEMPLATE)


def running_of(services: Services) -> Running:
    card, vocabulary, layer, has_turns = (
        services.lifecycle.card,
        None,
        "",
        services.lifecycle.card.prompt_form == "chat",
    )
    try:
        engine = services.lifecycle.get()
    except ArrowheadError:
        pass
    else:
        vocabulary, has_turns = engine.tokenizer.vocab_size, uses_chat_template(engine, card)
        layer = card.name if isinstance(engine, ServesOpenAi) else ""
    return Running(
        version=installed_version(),
        needs_key=services.keyring.requires_key,
        max_choices=services.settings.server.max_n,
        vocabulary=vocabulary,
        has_turns=has_turns,
        layer_model=layer,
        model=card.name,
        encoder=services.settings.retrieval.encoder_names[0],
    )


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


_UNUSED: Final = "not served: accepted only at a value that means that it is not used"
_OPTIONS: Final = "options of the method, e.g. max_calls, references, egress; GET /v1/models names the methods"
_GIVEN: Final[Schema] = {"not": {"type": "null"}}
_HAS_TEXT: Final[Schema] = {"type": "string", "pattern": r"\S"}
_HAS_WORDS: Final[Schema] = {"pattern": r"\w"}
_DAY: Final[Schema] = {"pattern": r"^\d{4}-?\d\d-?\d\d$"}


def add_rules(schemas: dict[str, Schema], running: Running) -> None:
    """Add the rules to the schemas of the request bodies, in place."""
    _add_answer_rules(schemas, running)
    _add_response_rules(schemas["ResponseRequest"])
    _add_token_rules(schemas, running)
    _add_retrieval_rules(schemas)


def _add_answer_rules(schemas: dict[str, Schema], running: Running) -> None:
    for name in ("ChatRequest", "CompletionRequest"):
        _add_unused(schemas[name], NEUTRAL, IGNORED)
        for branch in schemas[name]["properties"]["n"]["anyOf"]:
            if "maximum" in branch:
                branch["maximum"] = min(branch["maximum"], running.max_choices)
        _require(schemas[name], "stream_options", "stream")
        schemas[name]["properties"]["arrowhead"]["description"] = _OPTIONS
    chat = schemas["ChatRequest"]
    _require(chat, "top_logprobs", "logprobs")
    both = {"max_tokens": _GIVEN, "max_completion_tokens": _GIVEN}
    chat.setdefault("allOf", []).append({"not": {"required": list(both), "properties": both}})
    chat["properties"]["messages"]["contains"] = _user_message()
    _narrow(schemas["CompletionRequest"]["properties"]["prompt"], _HAS_TEXT)
    for branch in schemas["CompletionRequest"]["properties"]["prompt"]["anyOf"]:
        if "maxItems" in branch:
            branch["maxItems"] = min(branch["maxItems"], running.max_choices)


def _add_response_rules(schema: Schema) -> None:
    _add_unused(schema, {name: values for name, (values, _) in of_responses.NEUTRAL.items()}, of_responses.IGNORED)
    schema["properties"]["reasoning"]["type"] = ["object", "null"]
    schema["properties"]["arrowhead"]["description"] = _OPTIONS
    text, items = schema["properties"]["input"]["anyOf"]
    _narrow(text, _HAS_TEXT)
    passed = {"anyOf": [{"enum": sorted(of_responses.SKIPPED)}, {"pattern": f"^{of_responses.CLIENTS_OWN}"}]}
    own = {"type": "object", "properties": {"type": {"type": "string"} | passed}, "required": ["type"]}
    items["items"] = {"anyOf": [items["items"], own | {"description": "of an earlier reply: passed over"}]}
    items["contains"] = _user_message()
    wanted = {"properties": {"top_logprobs": {"type": "integer", "minimum": 1}}, "required": ["top_logprobs"]}
    named = {"include": {"type": "array", "contains": {"const": of_responses.LOGPROBS}}}
    schema.setdefault("allOf", []).append({"if": wanted, "then": {"properties": named, "required": ["include"]}})


def _add_token_rules(schemas: dict[str, Schema], running: Running) -> None:
    asked = schemas["TokenizeRequest"]
    _add_unused(asked, of_tokens.NEUTRAL, ())
    asked["oneOf"] = [{"required": [name], "properties": {name: _GIVEN}} for name in ("prompt", "messages")]
    if not running.has_turns:
        turns = {"contains": {"properties": {"role": {"const": "user"}}}}
        plain = {"add_generation_prompt": {"const": True}, "messages": turns}
        chat = {"required": ["messages"], "properties": {"messages": _GIVEN}}
        asked.setdefault("allOf", []).append({"if": chat, "then": {"properties": plain}})
    if running.vocabulary is not None:
        schemas["DetokenizeRequest"]["properties"]["tokens"]["items"]["maximum"] = running.vocabulary - 1


def _add_retrieval_rules(schemas: dict[str, Schema]) -> None:
    queries = [{"required": [name], "properties": {name: _GIVEN}} for name in ("query", "queries")]
    schemas["SearchBody"]["oneOf"] = queries
    _narrow(schemas["SearchBody"]["properties"]["query"], _HAS_WORDS)
    _narrow(schemas["SearchBody"]["properties"]["queries"], _HAS_WORDS)
    _narrow(schemas["QueryBody"]["properties"]["term"], _HAS_WORDS)
    for name in ("FilterBody", "QueryBody"):
        for day in ("date_from", "date_to"):
            _narrow(schemas[name]["properties"][day], _DAY)
    document = schemas["DocumentBody"]
    document["anyOf"] = [{"required": [part], "properties": {part: _HAS_WORDS}} for part in ("title", "text")]
    schemas["NamespaceBody"]["properties"]["name"]["pattern"] = "^[a-z0-9][a-z0-9_-]{0,62}$"


def _add_unused(schema: Schema, neutral: Mapping[str, Sequence[Any]], ignored: Iterable[str]) -> None:
    for name, values in neutral.items():
        if name not in schema["properties"]:
            schema["properties"][name] = {"enum": list(values), "description": _UNUSED}
    for name in sorted(ignored):
        schema["properties"][name] = {"description": "accepted, changes nothing"}


def _require(schema: Schema, field: str, needed: str) -> None:
    given = {"required": [field], "properties": {field: _GIVEN}}
    then = {"required": [needed], "properties": {needed: {"const": True}}}
    schema.setdefault("allOf", []).append({"if": given, "then": then})


def _user_message() -> Schema:
    part = {"type": "object", "properties": {"text": _HAS_TEXT}, "required": ["text"]}
    content = {"anyOf": [_HAS_TEXT, {"type": "array", "contains": part}]}
    return {
        "type": "object",
        "properties": {"role": {"const": "user"}, "content": content},
        "required": ["role", "content"],
    }


def _narrow(schema: Schema, rule: Schema) -> None:
    """Apply the rule to every string schema inside, whether alone or in a list; change the schema in place."""
    if schema.get("type") == "string":
        schema.update(rule)
    for branch in schema.get("anyOf", ()):
        _narrow(branch, rule)
    if schema.get("type") == "array":
        _narrow(schema["items"], rule)
