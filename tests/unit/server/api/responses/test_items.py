"""The items of a response, built from a method's events without a server."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from server.api.responses.items import Item, ResponseItems, Wire
from server.methods.base import CallMade, CallReplied, Event, Evidence, Reference, Retrieved, Step, TextDelta
from server.methods.shared.call_lines import call_query

CALL = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?db=gene&term=LMP10"
REPLY = CallReplied(url=CALL, ordinal=0, status="ok", summary="1 id", seconds=0.1, num_tokens=3, record={})


def _built(events: Sequence[Event]) -> tuple[ResponseItems, list[Wire]]:
    items = ResponseItems("stem")
    wires = [wire for event in events for wire in items.feed(event)]
    return items, wires + items.end("completed")


def _accumulated(wires: Sequence[Wire]) -> list[Item]:
    """What a client has that trusts ``added`` and the deltas alone, by place."""
    items: dict[int, Item] = {}
    for wire in wires:
        place = wire["output_index"]
        kind = wire["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert place == len(items)
            items[place] = {"type": wire["item"]["type"], "texts": []}
        elif kind.endswith("part.added"):
            items[place]["texts"].append("")
        elif kind.endswith("text.delta"):
            items[place]["texts"][wire.get("summary_index", 0)] += wire["delta"]
    return [items[place] for place in sorted(items)]


def test_each_step_is_a_part_of_its_own() -> None:
    """Steps in a row are one reasoning item; the message follows."""
    items, _ = _built([Step("one"), Step("two"), TextDelta("answer")])
    reasoning, message = items.items

    assert [part["text"] for part in reasoning["summary"]] == ["one", "two"]
    assert message["content"][0]["text"] == "answer"


def test_a_search_of_own_data_is_a_search_call() -> None:
    """With its queries and what was found."""
    items, wires = _built([Step("looking"), Retrieved(("il-5",), ("https://a.example/1",)), TextDelta("x")])
    search = items.items[1]

    assert search["action"]["queries"] == ["il-5"]
    assert search["action"]["sources"] == [{"type": "url", "url": "https://a.example/1"}]
    assert "response.web_search_call.completed" in [wire["type"] for wire in wires]


def test_a_refused_call_has_failed() -> None:
    """No event says that it was completed."""
    refused = CallReplied(url=CALL, ordinal=0, status="refused", summary="no", seconds=0, num_tokens=1, record={})
    items, wires = _built([CallMade(CALL, 0), refused])

    assert items.items[0]["status"] == "failed"
    assert "response.web_search_call.completed" not in [wire["type"] for wire in wires]


def test_a_call_without_reply_is_incomplete() -> None:
    """The time ran out while it was under way; the item is done all the same."""
    items, wires = _built([CallMade(CALL, 0)])
    done = [wire["item"]["type"] for wire in wires if wire["type"] == "response.output_item.done"]

    assert items.items[0]["status"] == "incomplete"
    assert done == ["web_search_call", "message"]


def test_an_answer_without_text_has_a_message() -> None:
    """Clients that take the last item find one."""
    items, _ = _built([])

    assert [(item["type"], item["content"][0]["text"]) for item in items.items] == [("message", "")]


def test_what_failed_says_so() -> None:
    """Open items are incomplete, finished ones stay completed."""
    items = ResponseItems("stem")
    for event in (Step("one"), CallMade(CALL, 0), REPLY, TextDelta("half an")):
        items.feed(event)
    items.fail()

    assert [item["status"] for item in items.items] == ["completed", "completed", "incomplete"]


def test_sent_items_do_not_grow() -> None:
    """The event that adds an item shows it empty for ever."""
    _, wires = _built([TextDelta("some text"), Step("late")])

    assert [wire["item"].get("content", []) for wire in wires if wire["type"] == "response.output_item.added"] == [
        [],
        [],
    ]


def test_calls_are_said_in_words() -> None:
    """The endpoint, the database and what was asked for; long values are cut."""
    blast = "https://blast.ncbi.nlm.nih.gov/blast/Blast.cgi?CMD=Put&PROGRAM=blastn&DATABASE=nt&QUERY=" + "ACGT" * 40

    assert call_query(CALL) == "esearch gene: LMP10"
    assert call_query(blast).startswith("BLAST nt: ACGT")
    assert call_query(blast).endswith("…")
    assert call_query("https://eutils.ncbi.nlm.nih.gov/entrez/eutils/einfo.fcgi") == "einfo"


_ANY = st.lists(
    st.one_of(
        st.builds(TextDelta, st.text(max_size=5)),
        st.builds(TextDelta, st.text(max_size=5), st.just("reasoning")),
        st.builds(Step, st.text(min_size=1, max_size=5)),
        st.builds(Retrieved, st.just(("q",))),
        st.sampled_from([CallMade(CALL, 0), REPLY]),
        st.just(Evidence((Reference(1, "t", "https://a.example", 0, 1),))),
    ),
    max_size=12,
)


@given(_ANY)
def test_added_items_and_deltas_make_the_final_items(events: Sequence[Event]) -> None:
    """Whatever happens in whatever order: the deltas join to the final texts, every item is added and done once, and
    the message holds the whole answer."""
    items, wires = _built(events)
    final = [
        {"type": item["type"], "texts": [part["text"] for part in item.get("summary") or item.get("content") or ()]}
        for item in items.items
    ]
    done = sorted(wire["output_index"] for wire in wires if wire["type"] == "response.output_item.done")
    answer = "".join(e.text for e in events if isinstance(e, TextDelta) and e.channel == "answer")

    assert _accumulated(wires) == final
    assert done == list(range(len(items.items)))
    assert [item["content"][0]["text"] for item in items.items if item["type"] == "message"] == [answer]
    assert len({item["id"] for item in items.items}) == len(items.items)
