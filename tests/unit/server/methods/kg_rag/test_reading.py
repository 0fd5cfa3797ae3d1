"""What a question asks of the graph: the shape that is read, and the relation and words that follow from it."""

from __future__ import annotations

from graph_doubles import ExactLinker, MemoryGraph

from models.encoders.relation_head import SECOND, AskedRelation
from retrieval.graph.context.select import gather
from server.methods.kg_rag.entities import neighbourhoods, recognise
from server.methods.kg_rag.prompts import parse_options, read_question
from server.methods.kg_rag.reading import Asked, Reading


async def reading_of(text: str, asked: AskedRelation | None = None) -> Reading:
    graph, options = MemoryGraph(), parse_options({})
    linker = ExactLinker(graph, kinds=("Disease", "Compound", "Gene"))
    question = read_question(text, options)
    recognised = await recognise(linker, question, None)
    around = await neighbourhoods(graph, linker, question, recognised)
    gathered = gather(question.words, recognised.mentions, around.found, around.stand_ins)
    return Reading(question, options, recognised, gathered, "The graph", asked=asked)


async def test_names_are_replaced_by_their_kinds_and_choices_left_out() -> None:
    """As in the questions that the head was trained on."""
    assert (await reading_of("Does methotrexate help with psoriasis?")).shape == "Does drug help with Disease?"
    choice = await reading_of("Which drug is for psoriasis? Options: methotrexate, aspirin")
    assert choice.shape.startswith("Which drug is for Disease?") and "aspirin" not in choice.shape


async def test_a_relation_that_no_statement_has_gives_way_to_words() -> None:
    """What the training questions say of it is read, other words are told to be left out."""
    learned = AskedRelation("treats", True, frozenset({"good", "for"}))
    parsed = Asked.of(await reading_of("What is good for psoriasis in Sardinia?", learned))
    assert (parsed.asked, parsed.unread) == (learned, ("Sardinia",))
    without = Asked.of(await reading_of("Which drugs are good for psoriasis?", AskedRelation("parents", True)))
    assert without.asked is None and len(without.relations) == 1


async def test_a_denial_of_the_second_of_two_names_of_one_kind_excludes_it() -> None:
    denies = AskedRelation("genes", True, denial=SECOND)
    assert Asked.of(await reading_of("genes of psoriasis but not of herpes zoster", denies)).excludes
    other = Asked.of(await reading_of("what is there for psoriasis but not methotrexate", denies))
    assert other.denies and not other.excludes
