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


def test_a_route_of_the_layer_alone_has_no_reply_without_it() -> None:
    """Nothing is said of the layer elsewhere."""
    document = _document()
    add_passthrough(document, "", 8, has_turns=True)

    assert "200" not in document["paths"]["/v1/messages"]["post"]["responses"]
    assert document["paths"]["/v1/responses"] == {"post": _operation()}
    assert (document["info"]["description"], document["components"]["schemas"]) == ("About.", {})


def test_a_base_model_has_the_layers_completions_alone() -> None:
    """Its chats have no turns, so our own code answers them."""
    document = _document()
    add_passthrough(document, "big", 8, has_turns=False)
    taken = {path for path, verbs in document["paths"].items() if "400" in verbs["post"]["responses"]}

    assert taken == {"/v1/completions"}
    assert "big" in document["info"]["description"]


def test_the_layer_answers_beside_ours_or_alone() -> None:
    """Where our own code answers too, either body and either reply may come."""
    document = _document()
    add_passthrough(document, "big", 8, has_turns=True)
    shared, alone = (document["paths"][path]["post"] for path in ("/v1/responses", "/v1/messages"))

    ours, layers = shared["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    assert (ours, layers["properties"]["model"]) == ({"const": "ours"}, {"const": "big"})
    assert alone["requestBody"]["content"]["application/json"]["schema"]["required"] == [
        "model",
        "messages",
        "max_tokens",
    ]
    assert alone["responses"]["200"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/LayerMessage"
    }
    assert shared["responses"]["422"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/LayerError"
    }
