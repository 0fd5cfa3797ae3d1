"""Recognise short messages that ask nothing of a method, and answer them. Pure.

A whole message is small talk or it is not: "Hi, what is the symbol of LMP10?" is a question.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from server.methods.shared.identifiers import identifiers_in

Language = Literal["en", "de"]
Kind = Literal["greeting", "thanks", "farewell", "about", "off_topic"]

_MAX_CHARS: Final = 120
_NAME: Final = (
    r"(?: (?:there|all|everyone|arrowhead|assistant|bot|friend|again|genegpt|medrag|server|zusammen|nochmal))?"
)
_MANNERS: Final = (
    r"(?: (?:please|thanks|thank you|a lot|so much|very much|ok|okay|bitte|danke|dir|ihnen|sehr|schön|for your "
    r"help|for the help|"
    r"for that|für die hilfe|für deine hilfe|für ihre hilfe))*"
)
_HELPED: Final = (
    r"(?:that|this|it|you)(?: have| has|'ve|'s)? (?:(?:really |just )?help(?:s|ed)?|(?:was|is|were|are|been) "
    r"(?:very |really |so )?(?:helpful|useful|great|perfect|clear))(?: me)?(?: a lot| very much)?"
)
_HELLO: Final = (
    r"(?:hi+|hello+|hey+|hiya|howdy|greetings|good (?:morning|afternoon|evening|day)|morning|evening|yo|hi "
    r"hello|how are you"
    r"(?: doing)?(?: today)?|how do you do|how is it going|how's it going|what's up|nice to meet you|are you "
    r"there|anyone there|test|testing|ping)"
)
_HALLO: Final = (
    r"(?:hallo+|guten (?:morgen|tag|abend)|moin(?: moin)?|servus|grüß (?:gott|dich)|grüezi|na|hallöchen|wie "
    r"geht(?:'s|s| es dir| es ihnen)|"
    r"bist du da|schönen guten tag)"
)
_PHRASES: Final[tuple[tuple[Kind, Language, str], ...]] = (
    ("greeting", "en", rf"{_HELLO}(?: {_HELLO})?{_NAME}(?: {_HELLO})?{_MANNERS}"),
    ("greeting", "de", rf"{_HALLO}(?: {_HALLO})?{_NAME}(?: {_HALLO})?{_MANNERS}"),
    (
        "thanks",
        "en",
        rf"(?:ok(?:ay)? |great |perfect |cool |super |nice |wow |good |yes |no )*(?:thanks?|thank you|thx|ty|"
        rf"cheers|much appreciated|{_HELPED}|well done|good job){_NAME}{_MANNERS}(?: {_HELPED})?",
    ),
    (
        "thanks",
        "en",
        r"(?:ok|okay|great|perfect|cool|nice|awesome|good|got it|i see|alright|all right|wow|fine|understood)",
    ),
    (
        "thanks",
        "de",
        rf"(?:ok(?:ay)? |super |toll |prima |gut |ja |nein )*(?:danke(?:schön)?|vielen dank|herzlichen dank|"
        rf"besten dank|dankeschön|das hilft(?: mir)?"
        rf"){_NAME}{_MANNERS}",
    ),
    ("thanks", "de", r"(?:super|toll|prima|alles klar|verstanden|gut|klasse)"),
    (
        "farewell",
        "en",
        rf"(?:ok |okay |thanks |thank you |and )*(?:good ?bye|bye(?: bye)?|see you(?: later| soon| tomorrow)?|"
        rf"good night|have a (?:nice|good|great) "
        rf"(?:day|evening|weekend|one)|take care|ciao|that's all(?: for now)?|farewell){_NAME}{_MANNERS}",
    ),
    (
        "farewell",
        "de",
        rf"(?:ok |danke |und )*(?:tschüss|tschüß|auf wiedersehen|bis (?:bald|dann|später|morgen)|gute nacht|"
        rf"schönen (?:tag|abend)(?: noch)?|das war's|"
        rf"das wars){_NAME}{_MANNERS}",
    ),
    (
        "about",
        "en",
        rf"(?:(?:{_HELLO}|so|and|ok|please){_NAME} )?(?:who are you|what are you|what(?:'s| is) your name|who "
        rf"(?:made|built|created|trained) you|"
        r"are you (?:chatgpt|gpt|a (?:robot|bot|human|doctor|person|real person)|an? (?:ai|llm|language model)|"
        r"human|real)|"
        r"what (?:can|could|do) you do(?: for me)?|what can i ask(?: you)?|what (?:is this|does this (?:do|"
        r"server do)|is arrowhead|is this server)|"
        r"how (?:does this|do you) work|how can you help(?: me)?|(?:can|could) you help(?: me)?|help(?: me)?|i "
        r"need (?:some )?help|"
        r"which model are you|what model are you|introduce yourself|tell me about yourself|what (?:questions "
        r")?can you answer|"
        rf"what kind of questions can (?:i ask|you answer)|what are you able to do|what are your "
        rf"(?:capabilities|functions)|usage|commands|menu|start)"
        rf"{_MANNERS}",
    ),
    (
        "about",
        "de",
        rf"(?:(?:{_HALLO}|und|also){_NAME} )?(?:wer bist du|wer sind sie|was bist du|wie hei(?:ß|ss)t du|was "
        rf"kannst du(?: alles)?(?: für mich tun)?|"
        r"was können sie(?: für mich tun)?|was kann ich (?:dich |hier )?fragen|hilfe|hilf mir|kannst du (?:mir "
        r")?helfen|können sie mir helfen|"
        rf"wie funktioniert (?:das|dieser server|arrowhead)|was ist (?:das hier|arrowhead)|bist du (?:ein "
        rf"mensch|chatgpt|eine ki|ein arzt)){_MANNERS}",
    ),
    (
        "off_topic",
        "en",
        r"(?:(?:please|can you|could you) )*(?:what(?:'s| is)|how(?:'s| is)|how will) (?:the )?weather(?: "
        r"(?:today|tomorrow|like|be|in [a-z ]+))*|"
        r"(?:please |can you |could you )?(?:tell|give) me (?:a|another|some) (?:\w+ )?(?:jokes?|poems?|bedtime "
        r"story|story|riddle|fun fact)|"
        r"(?:please |can you )?(?:write|compose) (?:me )?(?:a|an|some) (?:\w+ )?(?:poem|song|haiku|love letter|"
        r"cover letter|e-?mail)(?: (?:about|for|to) "
        r"[a-z ]{1,40})?|what(?:'s| is) the (?:time|date)(?: (?:now|today|is it))?|what (?:time|day) is it(?: "
        r"(?:now|today))?|"
        r"what(?:'s| is) the capital(?: city)? of [a-z ]{3,30}|who (?:won|will win) (?:the|last) [a-z0-9 "
        r"]{3,40}|who is the (?:president|king|queen|"
        r"chancellor|prime minister)(?: of [a-z ]{2,30})?|(?:what(?:'s| is) )?\d+ ?[-+*x/] ?\d+|what(?:'s| is) "
        r"the meaning of life|"
        r"(?:do you|can you) (?:love me|like me|sing|dance|dream)|what(?:'s| is) your favou?rite \w+|"
        r"(?:recommend|suggest) (?:me )?(?:a|some) "
        r"(?:good )?(?:movies?|films?|books?|restaurants?|songs?)|how do i (?:cook|bake) [a-z ]{3,30}",
    ),
    (
        "off_topic",
        "de",
        r"wie (?:ist|wird) das wetter(?: (?:heute|morgen|in [a-zäöü ]+))*|(?:bitte )?erzähl(?:e)? mir (?:einen "
        r"witz|eine geschichte)|"
        r"(?:bitte )?schreib(?:e)? (?:mir )?(?:ein gedicht|ein lied|eine e-?mail)(?: (?:über|an|für) [a-zäöüß "
        r"]{1,40})?|wie spät ist es|"
        r"welcher tag ist heute|was ist die hauptstadt von [a-zäöüß ]{3,30}|wer hat die [a-zäöü ]{3,40} "
        r"gewonnen|was ist der sinn des lebens",
    ),
)
_PATTERNS: Final = tuple((kind, language, re.compile(phrase)) for kind, language, phrase in _PHRASES)
_NOT_TEXT: Final = re.compile(r"[^\w\s'+*/-]+|[_]+")


class SmallTalk(NamedTuple):
    """Name what a message is, and its language."""

    kind: Kind
    language: Language


def small_talk_in(message: str) -> SmallTalk | None:
    """Return what kind of small talk a message is, None where it may be a question for a method."""
    if len(message) > _MAX_CHARS or any(found.kind not in ("number", "symbol") for found in identifiers_in(message)):
        return None
    text = " ".join(_NOT_TEXT.sub(" ", message.replace("’", "'").casefold()).split()).strip(" -'*/+")
    for kind, language, pattern in _PATTERNS:
        if pattern.fullmatch(text):
            return SmallTalk(kind, language)
    return None


class MethodGuide(NamedTuple):
    """Say what a method answers, in each language, with one question that works."""

    english: str
    german: str
    example: str


GUIDES: Final = {
    "genegpt": MethodGuide(
        "looks up genes, variants, diseases and sequences in NCBI's databases",
        "sucht Gene, Varianten, Krankheiten und Sequenzen in den Datenbanken des NCBI",
        "What is the official gene symbol of LMP10?",
    ),
    "kg-rag": MethodGuide(
        "answers biomedical questions from the statements of a knowledge graph",
        "beantwortet biomedizinische Fragen aus den Aussagen eines Wissensgraphen",
        "Which genes are associated with Parkinson's disease?",
    ),
    "medrag": MethodGuide(
        "answers medical questions from passages of this server's documents, with their sources",
        "beantwortet medizinische Fragen aus Textstellen der Dokumente dieses Servers, mit ihren Quellen",
        "Which drug reverses heparin?",
    ),
    "i-medrag": MethodGuide(
        "answers medical questions in rounds of searches in this server's documents, with their sources",
        "beantwortet medizinische Fragen in mehreren Suchrunden in den Dokumenten dieses Servers, mit ihren Quellen",
        "Which drug reverses heparin?",
    ),
    "weiseeule": MethodGuide(
        "answers from this server's documents by keywords, which can be marked: #How does **heparin** act?",
        "antwortet aus den Dokumenten dieses Servers nach Stichwörtern, auch markierten: #Wie wirkt **Heparin**?",
        "Which drug reverses heparin?",
    ),
    "clinfo": MethodGuide(
        "answers medical questions with a review of articles in PubMed or its copy here, with references",
        "beantwortet medizinische Fragen mit einer Übersicht über Artikel aus PubMed oder dessen Kopie, mit Quellen",
        "Does dexamethasone lower mortality in severe COVID-19?",
    ),
}
_OPENINGS: Final[dict[tuple[Kind, Language], str]] = {
    ("greeting", "en"): "Hello.",
    ("greeting", "de"): "Guten Tag.",
    ("thanks", "en"): "You are welcome.",
    ("thanks", "de"): "Gern geschehen.",
    ("farewell", "en"): "Goodbye.",
    ("farewell", "de"): "Auf Wiedersehen.",
    ("about", "en"): "This is Arrowhead, a research tool and not a doctor.",
    ("about", "de"): "Das ist Arrowhead, ein Werkzeug für die Forschung und kein Arzt.",
    ("off_topic", "en"): "That is outside of what this method answers.",
    ("off_topic", "de"): "Das gehört nicht zu dem, was diese Methode beantwortet.",
}


def small_talk_reply(talk: SmallTalk, guide: MethodGuide) -> str:
    """Return the answer: a fitting opening, what the method does and a question to try."""
    opening = _OPENINGS[talk.kind, talk.language]
    if talk.language == "de":
        return f"{opening} Nichts wurde nachgeschlagen: Diese Methode {guide.german}. Zum Beispiel: {guide.example}"
    return f"{opening} Nothing was looked up: this method {guide.english}. For example: {guide.example}"
