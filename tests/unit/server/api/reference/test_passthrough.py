"""The layer's bodies and replies stand beside ours, and are gone where there is no layer."""

from __future__ import annotations

from typing import Any

from server.api.reference.document import add_alternative, add_passthrough


def test_an_alternative_joins_what_is_there() -> None:
    """An empty schema gives way, a single one gets company, a list of alternatives grows."""
    media: dict[str, Any] = {"schema": {}}
    seen = []
    for name in ("a", "b", "c"):
        add_alternative(media, {"const": name})
        seen.append(media["schema"])

    assert seen == [
        {"const": "a"},
        {"anyOf": [{"const": "a"}, {"const": "b"}]},
        {"anyOf": [{"const": "a"}, {"const": "b"}, {"const": "c"}]},
    ]


def _operation() -> dict[str, Any]:
    def content() -> dict[str, Any]:
        return {"application/json": {"schema": {"const": "ours"}}}

    return {"requestBody": {"content": content()}, "responses": {"200": {"content": content()}, "422": {}}}


def _document() -> dict[str, Any]:
    paths = ("chat/completions", "completions", "responses", "messages", "messages/count_tokens")
    return {
        "info": {"description": "About."},
        "paths": {f"/v1/{path}": {"post": _operation()} for path in paths},
        "components": {"schemas": {}},
    }


def test_without_a_layer_nothing_is_said_of_it() -> None:
    document = _document()
    add_passthrough(document, "", 8, has_turns=True)

    assert all(document["paths"][path] == {"post": _operation()} for path in ("/v1/responses", "/v1/messages"))
    assert (document["info"]["description"], document["components"]["schemas"]) == ("About.", {})


def test_a_base_model_has_the_layers_completions_alone() -> None:
    """Its chats have no turns, so our own code answers them."""
    document = _document()
    add_passthrough(document, "big", 8, has_turns=False)
    taken = {path for path, verbs in document["paths"].items() if "400" in verbs["post"]["responses"]}

    assert taken == {"/v1/completions"}
    assert "big" in document["info"]["description"]


def test_the_layer_answers_beside_ours() -> None:
    """Either body and either reply may come."""
    document = _document()
    add_passthrough(document, "big", 8, has_turns=True)
    for path, needed in (("/v1/responses", ["model", "input"]), ("/v1/messages", ["model", "messages", "max_tokens"])):
        shared = document["paths"][path]["post"]
        ours, layers = shared["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
        assert (ours, layers["properties"]["model"]) == ({"const": "ours"}, {"const": "big"})
        assert layers["required"] == needed
        assert shared["responses"]["200"]["content"]["application/json"]["schema"]["anyOf"] == [
            {"const": "ours"},
            {"$ref": "#/components/schemas/LayerReply"},
        ]
        assert shared["responses"]["422"]["content"]["application/json"]["schema"] == {
            "$ref": "#/components/schemas/LayerError"
        }
