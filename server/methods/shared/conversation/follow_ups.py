"""Make the last question of a conversation stand alone by carrying over the entity of the user's earlier turns. Pure.

Only the user's own turns count: a name that a model made up in an answer must not become the next question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from server.methods.shared.conversation.emergencies import emergency_in
from server.methods.shared.conversation.small_talk import small_talk_in
from server.methods.shared.identifiers import identifiers_in

_MAX_CHARS: Final = 400
_MAX_TURNS: Final = 8
_NAMING: Final = frozenset({"symbol", "article", "term", "variant", "position", "band", "url", "doi"})
_WORD: Final = re.compile(r"[^\W_][\w'’+*./-]*")
# Words that name no entity: function words, what is asked of an entity, and what kind of thing it is.
_PLAIN_TEXT: Final = (
    "a about after again all already also although an and another any are as at be been before being both but by can "
    "could did do does done else ever exactly find for from further get gets give given had has have having how "
    "human "
    "humans i if in into involved is just know known like list located mainly many me mean means more most much "
    "my name "
    "named no not now of on one only or other others our please possible really same say search see should show "
    "so some "
    "still such tell than that the their them then there these they this those to too under up us use used used "
    "usually "
    "very was we were what when where whether which while who whom whose why will with without work works would "
    "yes you "
    "your it its he she his her ok okay official common called main found occur occurs happen happens encode encodes "
    "code codes coding protein-coding noncoding belong lie lies sit expressed associated related linked cause caused "
    "causes treat treated treats treatment treatments mutated inherited dangerous safe rare common approved "
    "chromosome chromosomes location locations locus position positions function functions symbol symbols alias "
    "aliases "
    "synonym synonyms name names type types kind summary description sequence length size id ids number gene "
    "genes protein "
    "proteins disease diseases disorder disorders condition syndrome drug drugs medicine medicines variant "
    "variants snp "
    "snps mutation mutations allele alleles organism organisms species pathway pathways role roles symptom "
    "symptoms sign "
    "signs risk risks dose doses side effect effects interaction interactions reference references source "
    "sources evidence "
    "article articles publication publications details detail example examples answer question strand exon exons "
    "transcript transcripts band arm expression tissue tissues enzyme antidote receptor hormone antibody "
    "reverse reverses block blocks inhibit inhibits activate activates bind binds prevent prevents produce produces "
    "produced increase increases decrease decreases regulate regulates interact interacts metabolise "
    "metabolises lower "
    "lowers raise raises help helps heal heals cure cures affect affects responsible "
    "aber als am an auch auf aus bei beim das dass davon dazu dem den denn der deren des dessen die dies diese "
    "dieser "
    "dieses doch ein eine einem einen einer er es fürs für gibt hat haben ihr ihre ihrer im ist ja kann kein "
    "keine mit "
    "nach noch nur ob oder sein seine seiner sie sind so um und von vom war warum was weiter welche welchem welchen "
    "welcher welches wer wie wo wofür wozu zu zum zur liegt heißt bedeutet bitte gen krankheit protein "
    "chromosom funktion "
    "lage symptome behandlung behandelt medikament medikamente variante varianten proteinkodierend steht sitzt macht"
)
_PLAIN: Final = frozenset(_PLAIN_TEXT.split())
_KINDS: Final = (
    r"(?:gene|protein|disease|disorder|condition|syndrome|drug|medicine|variant|snp|mutation|one|allele|"
    r"organism|Gen|Krankheit|"
    r"Protein|Medikament|Variante)"
)
_LINK: Final = re.compile(
    r"^(?:\W*(?:and|also|then|so|but|ok(?:ay)?|well|und|auch|aber|dann)\b[\s,]*)+(?=\S)", re.IGNORECASE
)
_WHAT_ABOUT: Final = re.compile(
    r"^\W*(?:(?:and|und|so|ok(?:ay)?|but|aber)\b[\s,]*)*(?:what|how) about\s+|^\W*(?:und\s+)?(?:was ist (?:denn "
    r")?mit|wie (?:ist|steht) es "
    r"(?:mit|um)|wie sieht es (?:mit|bei))\s+",
    re.IGNORECASE,
)
_POSSESSED: Final = re.compile(
    r"\b(?:its|their|his|her)\s+((?:(?:official|main|common|full|other|side)\s+)?[\w-]+)(?=\s*(?:[?.!,;]|$|"
    r"and\b|or\b))",
    re.IGNORECASE,
)
_POSSESSIVE: Final = re.compile(r"\b(?:its|their)\b(?=\s+\w)", re.IGNORECASE)
_POSSESSED_DE: Final = re.compile(r"\b(?:seine|ihre|sein|ihr)\s+([\w-]+)", re.IGNORECASE)
_OF_GERMAN: Final = re.compile(r"\b(?:davon|dessen|deren)\b", re.IGNORECASE)
_POINTED: Final = re.compile(
    rf"\b(?:this|that|the same|these|those|the|dieses|diese|dieser|diesem|dieses|das|"
    rf"die)\s+{_KINDS}\b(?!\s+(?:of|for|in|that|which|symbol|name|"
    r"von|für|called))",
    re.IGNORECASE,
)
_PRONOUN: Final = re.compile(
    r"\b(?:it|they|them)\b|\b(?:this|that)\b(?=\s*(?:[?.!]|$))|(?<=\bis )(?:this|that)\b|(?<=\bdoes )(?:this|that)\b",
    re.IGNORECASE,
)
_PRONOUN_DE: Final = re.compile(r"\b(?:es|sie|er|ihn|ihm)\b", re.IGNORECASE)
_IMPERSONAL: Final = re.compile(
    r"\b(?:is|was|isn't) it (?:true|possible|known|likely|necessary|important|safe to|better|correct|that)\b|"
    r"\bit (?:is|was) (?:known|true|possible)\b|"
    r"\bgibt es\b|\bist es (?:wahr|möglich|richtig|bekannt)\b|\bwhat (?:time|day) is it\b",
    re.IGNORECASE,
)
_PLACE: Final = re.compile(r"^(?:in|bei|beim|im|among)\s+", re.IGNORECASE)
_ORGANISM: Final = r"(?:humans?|mouse|mice|rats?|zebrafish|yeast|dogs?|pigs?|fly|flies|Maus|Menschen|Ratte|Hefe)"
_PREPOSITION: Final = re.compile(r"^(?:in|for|of|about|with|by|bei|beim|für|im|von|mit)\s+", re.IGNORECASE)
_ARTICLE: Final = re.compile(r"^(?:the|a|an|der|die|das|dem|den|ein|eine|einem|einer)\s+", re.IGNORECASE)
_AFTER: Final = re.compile(
    r"\b(?:of|about|for|in|with|against|treats?|treated|cures?|causes?|prevents?|reverses?|inhibits?|encodes?|"
    r"is|are|von|bei|über|gegen|für|mit|ist|"
    r"behandelt|verursacht)\s+",
    re.IGNORECASE,
)
_YES_NO: Final = re.compile(
    r"^\W*(?:is|are|was|does|do|did|can|could|will|should|has|have|ist|sind|hat|kann|hilft|wirkt)\b", re.IGNORECASE
)
_ASKS: Final = re.compile(
    r"^(?:what|which|who\w*|where|when|why|how|is|are|was|were|do|does|did|can|could|will|should|has|have|tell|"
    r"show|list|give|explain|was|wer|wo|"
    r"wie|warum|welche\w*|ist|sind|hat|kann)\b",
    re.IGNORECASE,
)
_DO: Final = re.compile(r"\b(?:do|does|did)\b", re.IGNORECASE)
_DEFINES: Final = re.compile(
    r"^\W*(?:what|was) (?:is|are|ist|sind) (?!the\b|its\b)(?:an? |eine? )?[\w-]+\W*$", re.IGNORECASE
)
# What a question asks for, by its kind: the next "it" may mean the answer, which is told by the question's own words.
_ASKED_KIND: Final = re.compile(
    r"^\W*(?:which|what) ((?:gene|protein|enzyme|drug|medicine|antidote|disease|disorder|variant|receptor|"
    r"hormone|antibody)(s?)) "
    r"((?:is|are) (?:associated|linked|related|mutated|used|responsible|given|approved)\b.*|(?!is|are|was|were|"
    r"does|do|did|has|have|can|could|"
    r"will|in|on|of)[a-z]+\b .*)$",
    re.IGNORECASE,
)
_OF_DISEASES: Final = re.compile(
    r"\b(?:symptoms?|treat\w*|inherited|prevalence|incidence|cured?|cures|diagnosed)\b", re.IGNORECASE
)
_PLURAL: Final = re.compile(r"\b(?:they|them|their|these|those)\b", re.IGNORECASE)
_GERMAN: Final = re.compile(
    r"\b(?:und|ist|wo|wie|was|welche\w*|liegt|auf|der|die|das|davon|warum|gibt)\b", re.IGNORECASE
)


def standalone(turns: Sequence[str]) -> str:
    """Return the last of the user's turns as a question that stands alone, unchanged where nothing can be carried over.

    ``turns``: the user's messages, oldest first. Each follow-up among them is resolved from the one before it.
    """
    recent = [turn.strip() for turn in turns[-_MAX_TURNS:]]
    before = ""
    for turn in recent[:-1]:
        if small_talk_in(turn) is None and emergency_in(turn) is None:
            before = resolve(turn, before)
    return resolve(recent[-1], before) if recent else ""


def resolve(question: str, before: str) -> str:
    """Return the question with what it takes from the question ``before`` put in, unchanged where it takes nothing."""
    entity = entity_of(before)
    if not entity or len(question) > _MAX_CHARS or len(before) > _MAX_CHARS or not is_dependent(question):
        return question
    if (other := _other_entity(question, before, entity)) is not None:
        return other
    meant = _meant(question, before, entity)
    return (meant and _put_in(question, meant)) or question


def is_dependent(question: str) -> bool:
    """Return whether a question takes something from earlier turns: by its beginning, a pronoun or an omission."""
    if _IMPERSONAL.search(question) or len(question) > _MAX_CHARS or "\n" in question.strip():
        return False
    if _WHAT_ABOUT.match(question) or (_LINK.match(question) and len(_WORD.findall(question)) <= 6):
        return True
    if (place := _first_pronoun(question)) is not None:
        return not _names(question[:place])
    words = _WORD.findall(question)
    return 0 < len(words) <= 6 and not _names(question) and not _DEFINES.match(question)


def entity_of(question: str) -> str:
    """Return what a question is about as it writes it: its first identifier, a name in capitals or its last words."""
    for found in identifiers_in(question):
        if found.kind in _NAMING:
            return found.text
    named = _capitalised(question)
    if named:
        return named
    runs = [_without_verb(run, question) for run in _runs(question) if _names(run)]
    if not runs:
        return ""
    if _YES_NO.match(question):
        return runs[0]
    after = [run for run in runs if _AFTER.search(question[: question.find(run)][-12:] or "")]
    return (after or runs)[-1]


def _without_verb(run: str, question: str) -> str:
    """Return the words of a name without the verb that ends a question of "do": "How does warfarin act?"."""
    name, _, verb = run.rpartition(" ")
    is_last = question.rstrip("?.! ").endswith(run) and verb.islower() and verb.isalpha()
    return name if name and is_last and _DO.search(question) else run


def _names(text: str) -> bool:
    """Return whether a text names an entity of its own."""
    return any(word.casefold().rstrip("'’.") not in _PLAIN and not word.isdecimal() for word in _WORD.findall(text))


def _runs(question: str) -> list[str]:
    """Return the longest runs of words that are no plain words; what an entity is called after stays with it."""
    runs: list[str] = []
    last = -1
    for found in _WORD.finditer(question):
        word = found[0].rstrip(".")
        is_kind = re.fullmatch(_KINDS + "s?", word, re.IGNORECASE) is not None
        joins = bool(runs) and last == found.start() - 1
        if word.casefold() not in _PLAIN or (is_kind and joins):
            runs = [*runs[:-1], f"{runs[-1]} {word}"] if joins else [*runs, word]
            last = found.start() + len(word)
    return runs


def _capitalised(question: str) -> str:
    """Return the first name in capitals that does not merely begin the sentence, with the words that belong to it."""
    for run in _runs(question):
        start = question.find(run)
        begins = not question[:start].strip(" \"'([")
        if not begins and run[:1].isupper() and not _GERMAN.search(question):
            return run
    return ""


def _meant(question: str, before: str, entity: str) -> str:
    """Return what the question's pronoun means: the earlier answer, by a description, or the entity; "" for neither."""
    asked, is_plural = _ASKED_KIND.match(before), _PLURAL.search(question) is not None
    if _first_pronoun(question) is None:
        return entity
    if asked is None:
        plural_kind = re.search(rf"\b(?:which|what)\b.{{0,20}}\b{_KINDS}s\b", before, re.IGNORECASE)
        return "" if is_plural and plural_kind else entity
    if is_plural != bool(asked[2]):
        return entity
    if asked[1].casefold().startswith(("gene", "protein", "variant")) and _OF_DISEASES.search(question):
        return entity
    return f"the {asked[1].casefold()} that {asked[3].rstrip('?.! ')}"


def _first_pronoun(question: str, *, is_german: bool | None = None) -> int | None:
    patterns = [_POSSESSED, _POSSESSIVE, _POINTED, _PRONOUN]
    if _GERMAN.search(question) if is_german is None else is_german:
        patterns += [_POSSESSED_DE, _OF_GERMAN, _PRONOUN_DE]
    return min((found.start() for pattern in patterns if (found := pattern.search(question))), default=None)


def _other_entity(question: str, before: str, entity: str) -> str | None:
    """Return the earlier question asked of another entity or place: "what about TP53?", "and in the mouse?"."""
    opening = _WHAT_ABOUT.match(question) or _LINK.match(question)
    if opening is None or _first_pronoun(question) is not None:
        return None
    rest = question[opening.end() :].strip().rstrip("?.! ")
    if re.fullmatch(rf"(?:(?:in|for) )?(?:the )?{_ORGANISM}", rest, re.IGNORECASE):
        return f"{_without_place(before).rstrip('?.! ')} in {re.sub('^(?:in|for) ', '', rest, flags=re.IGNORECASE)}?"
    if not rest or _ASKS.match(rest) or not _names(rest) or len(_WORD.findall(rest)) > 6:
        return None
    if _PLACE.match(rest) and not any(found.kind in _NAMING for found in identifiers_in(rest)):
        return f"{_without_place(before).rstrip('?.! ')} {rest}?"
    name = _ARTICLE.sub("", _PREPOSITION.sub("", rest))
    return before.replace(entity, name) if len(_WORD.findall(name)) <= 4 else None


def _without_place(question: str) -> str:
    """Return a question without the organism that it ends with."""
    place = rf"\s+(?:in|bei|im|in der|beim)\s+(?:the\s+|a\s+)?{_ORGANISM}\s*[?.!]*$"
    return re.sub(place, "?", question, flags=re.IGNORECASE)


def _put_in(question: str, entity: str) -> str | None:
    """Return the question with its pronouns replaced by the entity, or the entity added to what omits it."""
    rest = question[found.end() :] if (found := _WHAT_ABOUT.match(question)) else _LINK.sub("", question)
    is_german = _GERMAN.search(question) is not None
    if _first_pronoun(rest, is_german=is_german) is None:
        return _completed(rest, entity, is_german=is_german)
    text = _POSSESSED.sub(lambda own: f"the {own[1]} of {entity}", rest)
    text = _POSSESSIVE.sub(f"{entity}'s", text)
    text = _POINTED.sub(entity, text)
    # "They" after "it" are others: of one kind of pronoun alone.
    text = _PRONOUN.sub(entity, text, count=0 if text == rest else 1) if entity not in text else text
    if is_german:
        text = _POSSESSED_DE.sub(lambda own: f"{own[1]} von {entity}", text)
        text = _OF_GERMAN.sub(f"von {entity}", text)
        text = _PRONOUN_DE.sub(entity, text) if entity not in text else text
    bare = text.rstrip("?.! ")
    if entity in text and (
        found
        or re.fullmatch(
            rf"(?:the )?[\w-]+(?: [\w-]+)? (?:of|von) "
            rf"{re.escape(entity)}",
            bare,
        )
    ):
        text = f"Was ist {bare}?" if is_german else f"What {_verb(bare.partition(' of ')[0])} {bare}?"
    return _begun(text) if entity in text else None


def _completed(rest: str, entity: str, *, is_german: bool) -> str | None:
    bare = rest.strip().rstrip("?.! ")
    if not bare or _names(bare):
        return None
    if re.fullmatch(r"(?:on |in )?(?:which|what) chromosome", bare, re.IGNORECASE):
        return f"On which chromosome is {entity}?"
    if re.fullmatch(r"(?:in )?(?:which|what) genes?", bare, re.IGNORECASE):
        return (
            f"Which gene is {entity} in?"
            if re.fullmatch(r"rs\d+", entity)
            else f"Which genes are associated with {entity}?"
        )
    if re.fullmatch(r"protein[- ]coding|inherited|mutated|dangerous|safe|rare|approved", bare, re.IGNORECASE):
        return f"Is {entity} {bare.casefold()}?"
    if re.fullmatch(r"where|where located|location", bare, re.IGNORECASE):
        return f"Where is {entity} located?"
    if re.fullmatch(
        r"why|how|who|when|warum|wieso|wer|wann|yes|no|ja|nein|one|more|(?:tell|show) me more", bare, re.IGNORECASE
    ):
        return None
    if re.match(r"(?:what|which|was|welche\w*|how many|wie viele|wo|who)\b", bare, re.IGNORECASE):
        return _begun(f"{bare} {'von' if is_german else 'of'} {entity}?")
    if is_german:
        return f"Was ist {bare} von {entity}?"
    return f"What {_verb(bare)} {'' if bare.casefold().startswith('the ') else 'the '}{bare} of {entity}?"


def _verb(name: str) -> str:
    return "are" if name.endswith("s") and not name.endswith(("us", "ss", "is", "alias")) else "is"


def _begun(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:]
