"""Small talk is a whole message or none: a question with a greeting before it stays a question."""

from __future__ import annotations

import pytest
from emergency_messages import OTHERS
from hypothesis import given
from hypothesis import strategies as st

from server.methods.base import METHOD_NAMES
from server.methods.shared.conversation.small_talk import GUIDES, small_talk_in, small_talk_reply


@pytest.mark.parametrize(
    ("kind", "language", "messages"),
    [
        (
            "greeting",
            "en",
            "hello|Hi!|hi there|Good morning|Hey, how are you?|Hello everyone|Hello :-)|How are you doing today?",
        ),
        ("greeting", "de", "Hallo|Guten Morgen!|Hallo, wie geht's?|Moin|Guten Tag zusammen"),
        (
            "thanks",
            "en",
            "thanks|Thank you very much!|ok thanks|Great, that was helpful|perfect|Thanks a lot for your help|"
            "Thanks, that helped!|You have been very helpful|It really helps me a lot",
        ),
        ("thanks", "de", "Danke|Vielen Dank!|super danke|Danke für die Hilfe|Danke schön"),
        ("farewell", "en", "bye|Good bye!|see you later|Good night|ok bye|Thanks, goodbye"),
        ("farewell", "de", "Tschüss|auf Wiedersehen|Gute Nacht"),
        (
            "about",
            "en",
            "Who are you?|what can you do|help|Hi, what can you do?|Are you a doctor?|Can you help me?",
        ),
        ("about", "de", "Wer bist du?|Was kannst du?|Hilfe|Kannst du mir helfen?|Hallo, was kannst du?"),
        (
            "off_topic",
            "en",
            "Tell me a joke|What's the weather today?|Write a poem about spring|What is the capital of France?|2+2",
        ),
        ("off_topic", "de", "Wie wird das Wetter morgen?|Erzähl mir einen Witz|Wie spät ist es?"),
    ],
)
def test_short_talk_is_recognised(kind: str, language: str, messages: str) -> None:
    """With its kind and language."""
    found = {message: small_talk_in(message) for message in messages.split("|")}
    assert found == dict.fromkeys(messages.split("|"), (kind, language))


QUESTIONS = """
Hi, what is the symbol of LMP10?
Hello, which drug reverses heparin?
Thanks! And which chromosome is it on?
Good morning, is TP53 protein-coding?
What can you do against asthma?
Who discovered TP53?
What is TP53?
What is the capital of the heart's blood supply?
Help me find the gene for cystic fibrosis
What is the time course of troponin?
help with BRCA1
hey, und wo liegt BRCA1?
Was kannst du über LMP10 sagen?
Hallo, welches Gen verursacht Mukoviszidose?
How do I treat asthma?
test for BRCA1
ping pong gene
Is HELLO a gene?
What is the name of the gene?
Who are carriers of sickle cell disease?
What is the meaning of p53?
ok, and in the mouse?
1
B
yes
yes, the second one
How does it work?
How does this drug work?
""".strip().splitlines()


def test_a_question_is_never_small_talk() -> None:
    """However it begins."""
    asked = [*QUESTIONS, *(message for message in OTHERS if message not in ("hello", "thanks, bye", "Guten Morgen"))]
    assert [message for message in asked if small_talk_in(message)] == []


def test_the_reply_names_the_method_and_a_question_to_try() -> None:
    """Every method has its own guide."""
    assert set(GUIDES) == set(METHOD_NAMES)
    talk = small_talk_in("hello")
    assert talk is not None
    for guide in GUIDES.values():
        told = small_talk_reply(talk, guide)
        assert told.startswith("Hello. Nothing was looked up")
        assert guide.english in told and guide.example in told


@given(st.text(max_size=200))
def test_any_text_is_judged(text: str) -> None:
    """Without failing."""
    small_talk_in(text)
