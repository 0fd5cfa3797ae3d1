"""Recognise that a message describes an acute emergency of a person, now. Pure.

Rules on wording, in English and German: who it happens to, what happens, and that it is not told as a case, a study or
a thing of the past. A message that no rule knows is not recognised: this is no triage.
"""

from __future__ import annotations

import re
from typing import Final, Literal

Language = Literal["en", "de"]
Kind = Literal["bodily", "suicidal"]

_MAX_CHARS: Final = 1_000
_PIECE: Final = re.compile(r"[.!?;,\n]+|\s-+\s|\b(?:and what|was soll|und was)\b")
_QUOTES: Final = str.maketrans({"’": "'", "‘": "'", "`": "'", "´": "'", "“": '"', "”": '"', "„": '"'})

_KIN: Final = (
    r"(?:husband|wife|partner|mother|mom|mum|mama|father|dad|son|daughter|baby|child|kid|toddler|infant|brother|"
    r"sister|"
    r"friend|neighbou?r|colleague|coworker|boyfriend|girlfriend|grand(?:mother|father|ma|pa|son|daughter)|uncle|aunt|"
    r"cousin|roommate|boss|teammate|twin)"
)
_STRANGER: Final = r"(?:some(?:one|body)|an? (?:[\w-]+ )?(?:man|woman|guy|person|stranger|boy|girl|passenger))"
_WHO: Final = (
    rf"(?:\bi\b|\bi'?m\b|\bwe\b|\b(?:my|our) (?:[\w-]+ ){{0,2}}(?:{_KIN}\b|\d+[- ]?(?:year|month|week|day)s?[- "
    rf"]old\b)|\b(?:s?he|they)\b|{_STRANGER}|^(?:the )?baby\b)"
)
_BE: Final = r"(?:'s|'re|'m|s|m|is|am|are|has been|have been|just|has|have)?"
_GAP: Final = r"[^\"]{0,60}?"
_STRONG: Final = (
    r"(?:crushing|severe|terrible|horrible|intense|excruciating|squeezing|sudden|unbearable|awful|massive|bad|strong|"
    r"tearing|really bad|very bad)"
)
_POISON: Final = (
    r"(?:bleach|poison|antifreeze|drain cleaner|detergent|rat poison|pesticide|insecticide|methanol|lye|toilet "
    r"cleaner|"
    r"(?:button |a )?batter(?:y|ies)|(?:whole|entire|full) (?:pack|packet|bottle|box|strip)|bottle of (?:pills|"
    r"tablets|\w+)|"
    r"too (?:many|much)|all (?:of )?(?:my|the|his|her|our)|handful of|(?:\d{2,}|twenty|thirty|forty|fifty|a lot of) "
    r"(?:\w+ )?(?:pills|tablets|capsules|paracetamol|tylenol|ibuprofen|aspirins?))"
)

# With a person before it in the same piece of the message.
_ENGLISH_SIGNS: Final = (
    rf"(?:have|has|having|got|with|feel|feeling|gets?|getting|complaining of) (?:\w+ ){{0,2}}?(?:{_STRONG} )?"
    r"(?:chest (?:pains?|pressure|tightness)|pain in (?:my|his|her|the) chest)",
    r"(?:can'?t|cannot|can not|can hardly|can barely|could barely|hardly|barely|(?:is|are|am|'s|'m)? ?(?:not|no "
    r"longer)|isn'?t|"
    r"stopped|struggl(?:es|ing) to|unable to|gasping to|fighting to|(?:having )?(?:trouble|difficulty)) "
    r"(?:properly )?(?:get any air|get air|breath(?:e|ing)?)\b",
    r"(?:choking(?! on (?:all|these|my words))|turning blue|gone blue|gasping for (?:air|breath))",
    r"(?:face|mouth|smile) (?:is|has|looks|just)? ?(?:droop\w*|sagging|hanging|gone lopsided)",
    r"(?:can'?t|cannot|unable to|suddenly can'?t) (?:move|lift|feel) (?:my|his|her|their|the|one|an?)? ?(?:left "
    r"|right )?"
    r"(?:arms?|side|legs?|hand)",
    r"(?:speech|words) (?:is|are|has|has become|suddenly)? ?(?:slurr\w*|garbled|jumbled)|(?:suddenly |is )slurring",
    r"(?:(?:am|is|are|'s|'m|'re|be|i'?m) having|having) (?:an? )?(?:\w+ )?(?:strokes?|heart attack|seizures?|"
    r"fit|convulsions?|"
    r"anaphyla\w+(?: shock)?|severe allergic reaction|allergic shock)",
    r"going into (?:anaphyla\w+|cardiac arrest|shock)|in (?:cardiac arrest|anaphylactic shock)",
    r"(?:seizing|convulsing)\b",
    rf"(?:took|taken|take|swallowed|drank|drunk|ate|ingested|eaten|injected) (?:\w+ ){{0,2}}?{_POISON}",
    r"(?:overdosed|have overdosed|is overdosing|took an overdose|taken an overdose)",
    r"bleeding (?:\w+ )?(?:heavily|badly|a lot|out|to death|everywhere|profusely|and it won'?t stop|non ?stop)|"
    r"(?:heavily|badly|profusely) bleeding",
    r"(?:cut|slit) (?:my|his|her|an?|the|their) (?:wrists?|artery|throat)",
    r"(?:coughing|vomiting|throwing up|spitting) (?:up )?(?:a lot of |lots of )?(?:bright red )?blood",
    r"(?:unconscious|unresponsive(?! to)|collapsed|passed out(?! of)|not responding|isn'?t responding|doesn'?t "
    r"respond|(?:won'?t|not|can'?t) "
    r"wak(?:e|ing) up|(?:has )?no pulse|no heartbeat)",
    r"(?:been|was|got) (?:just )?(?:shot|stabbed|electrocuted|bitten by a (?:\w+ )?(?:snake|viper|cobra))",
    r"(?:dying|about to die) (?:right )?(?:now|here|on (?:the|our) floor)",
)
# These name their person themselves.
_ENGLISH_ALONE: Final = (
    r"\bmy (?:throat|tongue|lips|airway) (?:is|are|feels?|keeps?)? ?(?:\w+ )?(?:swelling|swollen|closing|tightening)",
    r"\b(?:his|her) (?:throat|tongue|lips|airway) (?:is|are|keeps?)? ?(?:\w+ )?(?:swelling|closing)",
    r"\bmy chest (?:hurts|is (?:crushing|killing me|being crushed|so tight|really tight|exploding)|feels "
    r"(?:crushed|very tight|"
    r"like (?:an elephant|it is being crushed|it'?s being crushed)))",
    rf"\b{_STRONG} (?:chest (?:pain|pressure)|pain) in (?:my|his|her) chest",
    r"\bmy (?:chest|left arm and chest) (?:\w+ )?(?:pain|pressure) (?:is|won'?t|does not|doesn'?t)",
    r"\b(?:one|left|right|the left|the right) (?:side|half) of (?:my|his|her) (?:face|body) (?:is|has|went|"
    r"feels|just|hangs|droops|sags|dropped)",
    r"\bhalf of (?:my|his|her) (?:face|body) (?:(?:just |has )?(?:hangs|droops|sags|dropped)|"
    r"is (?:hanging|drooping|sagging|numb|paraly[sz]ed))",
    r"\b(?:the|this|his|her|my) bleeding (?:won'?t|doesn'?t|will not|does not|is not) stop|\bcan'?t stop the "
    r"bleeding|"
    r"\bblood is (?:gushing|spurting|pouring|everywhere)",
    r"\bmy (?:\w+ ){1,2}(?:is|are|keeps|won'?t stop) bleeding (?:heavily|badly|a lot|profusely|everywhere|and "
    r"it won'?t stop)",
    r"\b(?:his|her|my \w+'?s?) (?:heart|breathing) (?:has )?(?:just )?stopped",
    r"\b(?:his|her|my \w+'s) lips are (?:turning )?blue",
    r"\b(?:call|send|need) (?:me )?(?:an? |the )?(?:ambulance|paramedics?|emergency doctor)\b|^(?:please "
    r")?(?:call|dial) (?:911|112|999)",
    r"^(?:help )?i(?:'m| am) dying$|^help(?: me)? i(?:'m| am) dying|^i think i(?:'m| am) dying",
    r"^(?:\w+ ){0,2}(?:crushing|severe|sudden|terrible|unbearable|excruciating|squeezing) chest (?:pain|"
    r"pressure|tightness)"
    r"(?: (?:right )?now| help(?: me)?| please| radiating .{0,40}| in my .{0,20}| since .{0,30}| and .{0,40})?$",
    r"^(?:help )?chest pain (?:right now|help(?: me)?|now)$|^(?:help )?(?:can'?t|cannot) breathe(?: help)?$|"
    r"^help (?:overdose|stroke|"
    r"heart attack|poisoned|choking)$",
    r"^(?:took|swallowed|drank) (?:\w+ ){0,2}?" + _POISON,
)
_ENGLISH_SUICIDAL: Final = (
    r"\bi(?:'?m| am)? (?:just |really |only |still )*(?:want(?:ed)?|wanna|going|gonna|plan(?:ning)?|about|ready|"
    r"intend|wish|have decided|"
    r"decided|need|trying|tempted)(?: to)? (?:just )?(?:die\b|be dead|i (?:was|were) dead|kill(?:ing)? myself|"
    r"end(?:ing)? (?:my life|it all)|"
    r"hurt myself|take my (?:own )?life|commit suicide|jump off|hang myself|shoot myself|i could die)",
    r"\bi(?:'?m| am| will|'ll) (?:going to )?(?:kill|hang|shoot|drown) myself",
    r"\bi (?:do not|don'?t|no longer|can'?t) (?:want to )?(?:live|be alive|go on living|be here)(?: any ?more| "
    r"any longer)?$",
    r"\bi (?:do not|don'?t) want to (?:live|be alive|wake up)",
    r"\bi(?:'m| am| feel| have been feeling) (?:so |very )?suicidal|\bi(?:'m| am| have been|'ve been)? "
    r"(?:having|have|thinking about|thinking of) "
    r"(?:suicidal (?:thoughts|ideas)|suicide|killing myself|ending (?:my life|it all))",
    r"\b(?:everyone would be|i(?:'d| would) be|i(?:'m| am)) better off (?:dead|without me)",
    rf"{_WHO}.{{0,30}}(?:wants? to|going to|threaten\w* to|says? (?:s?he|they) (?:will|wants? to)|trying to|"
    rf"about to) (?:kill|hurt|hang) "
    r"(?:himself|herself|themselves|themself)",
    rf"\bmy (?:[\w-]+ ){{0,2}}{_KIN} (?:is|is feeling|seems) suicidal",
    r"\bgoodbye (?:cruel )?world\b.*\bpills\b",
)

_KIN_DE: Final = (
    r"(?:mann|frau|vater|papa|mutter|mama|sohn|tochter|baby|kind|freund(?:in)?|bruder|schwester|oma|opa|gro(?:ß|"
    r"ss)(?:mutter|vater)|"
    r"kolleg(?:e|in|en)|nachbar(?:in|n)?|onkel|tante|partner(?:in)?|chef(?:in)?|mitbewohner(?:in)?|säugling|"
    r"kleinkind)"
)
_WHO_DE: Final = (
    rf"(?:\bich\b|\bmir\b|\bwir\b|\b(?:mein|unser)(?:e|er|em|en)? (?:\w+ )?{_KIN_DE}\b|\b(?:er|sie|jemand|"
    rf"jemandem|ihm|ihr)\b|"
    r"\bein(?:e)? (?:mann|frau|person|kind)\b)"
)
_GERMAN_SIGNS: Final = (
    r"(?:habe?|hat|haben|bekomme|bekommt|spüre?|spürt) (?:\w+ ){0,3}?(?:brustschmerz\w*|schmerzen in der brust|"
    r"druck auf der brust|"
    r"brustenge|engegefühl in der brust)",
    r"(?:bekomm\w*|krieg\w*|kriegt) (?:\w+ )?(?:keine|kaum|schwer) ?(?:\w+ )?luft|(?:atmet|atme) (?:nicht|kaum|"
    r"nicht mehr)\b|"
    r"kann (?:nicht|kaum|nicht mehr) (?:mehr )?atmen|nicht mehr atmen|ringt nach luft|erstick(?:e|t)\b|läuft blau an",
    r"(?:hat|habe|hatte gerade) (?:wohl |gerade |vielleicht |glaube ich )*(?:einen |eine )?(?:schlaganfall|"
    r"herzinfarkt|"
    r"krampfanfall|epileptischen anfall|anaphylaktischen schock|allergischen schock|herzstillstand)",
    r"krampft\b",
    r"(?:mundwinkel|gesicht) hängt|(?:kann|können) (?:den|die|seinen|ihren|meinen|einen)?.{0,20}(?:arm|seite|"
    r"bein) nicht (?:mehr )?bewegen|"
    r"(?:spricht|redet) (?:plötzlich )?(?:verwaschen|undeutlich|wirr)",
    r"(?:bewusstlos|ohnmächtig|nicht (?:mehr )?ansprechbar|zusammengebrochen|reagiert nicht|wacht nicht (?:mehr "
    r")?auf|keinen puls)",
    r"(?:tabletten|pillen|schlaftabletten|überdosis|bleichmittel|rohrreiniger|frostschutzmittel|knopfbatterie|"
    r"batterie|putzmittel|"
    r"reiniger|gift|waschmittel).{0,25}(?:genommen|geschluckt|getrunken|gegessen|verschluckt)",
    r"blutet? (?:\w+ )?(?:stark|heftig|sehr|extrem|und es hört nicht auf)|verblut(?:e|et)\b|(?:spuckt?|erbreche|"
    r"erbricht|huste|hustet) (?:\w+ )?blut",
    r"(?:zunge|hals|lippen|rachen) (?:schwillt|schwellen|schnürt|geht) ?(?:\w+ )?(?:an|zu)",
)
_GERMAN_ALONE: Final = (
    r"\b(?:mein|meine|mir) (?:hals|zunge|lippen|rachen)? ?(?:schwillt|schwellen|schnürt).{0,20}(?:an|zu)",
    r"\b(?:blutung|bluten) (?:hört|lässt sich) nicht (?:auf|stoppen|stillen)",
    r"\b(?:ruf\w*|brauche?n?|schick\w*) (?:\w+ ){0,2}(?:krankenwagen|notarzt|rettungswagen|rettungsdienst)",
    r"\bich sterbe\b(?: gerade)?$|^hilfe ich sterbe",
    r"^(?:hilfe )?(?:starke|heftige|plötzliche|vernichtende|stechende|unerträgliche|drückende)r? (?:schmerzen "
    r"in der brust|brustschmerz\w*|"
    r"druck auf der brust)(?: hilfe| jetzt| seit .{0,30}| und .{0,40})?$",
    r"^(?:hilfe )?(?:keine luft|kriege keine luft|bekomme keine luft)$",
)
_GERMAN_SUICIDAL: Final = (
    r"\bich (?:will|möchte|werde|wollte jetzt) (?:\w+ ){0,3}?(?:sterben|tot sein|nicht mehr leben|mich "
    r"umbringen|mir das leben nehmen|mich töten|"
    r"allem ein ende (?:setzen|machen))",
    r"\bich (?:bringe mich|bring mich) (?:\w+ )?um\b|\b(?:nicht mehr leben|nicht länger leben)$",
    r"\bich (?:habe|hab) (?:\w+ )?(?:suizidgedanken|selbstmordgedanken)|\bich denke (?:\w+ )?(?:an|über) "
    r"(?:selbstmord|suizid)|\bich bin suizidal",
    rf"{_WHO_DE}.{{0,20}}(?:will|möchte|droht) (?:\w+ )?(?:sich (?:\w+ )?(?:umbringen|umzubringen|das leben "
    rf"(?:zu )?nehmen|töten))",
)

# A case that is told, as in examinations and reports.
_CASE: Final = re.compile(
    r"\b\d+[- ](?:year|month|week|day)s?[- ]old (?:\w+ ){0,3}(?:man|woman|male|female|boy|girl|patient|infant|"
    r"child)\b(?!.*(?:next to me|here|"
    r"in front of me|right now))|\bpresent(?:s|ed|ing) (?:to|with)|\bis brought|\bbrought to|\bwhich of the "
    r"following|\bmost likely|"
    r"\bmost appropriate|\bnext (?:best )?step|\bcase report|\bvignette|\bem(?:ergency)? department|\bwelche "
    r"der folgenden|"
    r"\bwahrscheinlichste|\b\d+[- ]jährige[rs]? (?:patient|mann|frau)|\bstellt sich .{0,30}vor|\b(?:a|the|your|"
    r"der|die|ein|eine) patient(?:in)?\b"
)
# What belongs to study and not to a person: vetoes a piece of the message, with or without a person in it.
_STUDY: Final = re.compile(
    r"\b(?:patients|stud(?:y|ies|ied)|trials?|cohorts?|prevalence|incidence|genes?|genetic\w*|mutations?|"
    r"variants?|guidelines?|mechanisms?|"
    r"pathophysiology|treatment of|risk of|associated|association|symptoms of|signs of|causes? of|differential|"
    r"mortality|definition|"
    r"lyrics|song|book|movie|film|novel|poem|story|game|dream(?:t|ed|s)?|papers?|articles?|datasets?|mouse|mice|"
    r"rats?|odds|scores?|"
    r"epidemiology|survival|biomarkers?|proteins?|receptors?|models?|abstracts?|patienten|studien?|gene?n?|"
    r"häufigkeit|ursachen?|"
    r"symptome|nebenwirkung(?:en)?|side effects?|leitlinien?|behandlung von|definition|buch|lied|roman|laughing|"
    r"dachte|embarrassment|boredom|for a (?:burger|beer|coffee))\b"
)
_PAST: Final = re.compile(
    r"\b(?:years?|months?|weeks?|decades?) ago|\bin (?:19|20)\d\d\b|\bhistory of|\bwhen (?:i|he|she) was|\bused to|"
    r"\blast (?:year|month|week|winter|summer|spring|autumn|fall|christmas|time)|\bas a child|\bin the past|"
    r"\bsurvived|\brecovered|\bonce (?:had|took)|"
    r"\bvor (?:\w+ )?(?:jahren?|monaten?|wochen?)\b|\bletzte[sn]? (?:jahr|monat|woche)|\bfrüher\b|\bals kind\b|"
    r"\bjedes mal\b|\bmanchmal\b|"
    r"\b(?:when(?:ever)? i|every time|sometimes|often|occasionally|why do i)\b|\bnot (?:having|suicidal)|"
    r"\b(?:do not|don'?t|does not|doesn'?t) have|\b(?:a|eine) (?:question|frage)\b|\b(?:do not|don'?t|never) "
    r"want to (?:die|kill)|"
    r"\bkeine? (?:brustschmerzen|suizidgedanken)\b|\b(?:no|without) chest pain"
)
_SUPPOSED: Final = re.compile(
    r"\b(?:if|when|whether|how|why|can|could|would|does|do|wenn|falls|ob|wie|warum|kann)\b[^\"]{0,40}?"
    r"(?:\b(?:some(?:one|body)|people|persons?|you|one|they|patients?|jemand|jemandem|man|s?he|er|sie)\b|\ban? "
    r"(?:[\w-]+ )?"
    r"(?:man|woman|guy|person|boy|girl|passenger)\b)"
)


def _any(parts: tuple[str, ...], before: str = "") -> re.Pattern[str]:
    return re.compile(before + "(?:" + "|".join(f"(?:{part})" for part in parts) + ")")


_BODILY: Final[tuple[tuple[Language, re.Pattern[str]], ...]] = (
    ("en", _any(_ENGLISH_SIGNS, rf"{_WHO}{_GAP}{_BE} ?")),
    ("en", _any(_ENGLISH_ALONE)),
    ("de", _any(_GERMAN_SIGNS, rf"{_WHO_DE}{_GAP}")),
    # German puts the verb before the person as well: "Hier hat jemand ...", "Plötzlich krampft mein Sohn".
    (
        "de",
        re.compile(
            rf"\b(?:hat|atmet|reagiert|blutet|krampft|liegt|ist) "
            rf"{_WHO_DE}{_GAP}(?:{'|'.join(_GERMAN_SIGNS)})"
        ),
    ),
    ("de", re.compile(rf"\b(?:krampft|blutet|erstickt|verblutet) (?:gerade )?{_WHO_DE}")),
    ("de", _any(_GERMAN_ALONE)),
)
_SUICIDAL: Final[tuple[tuple[Language, re.Pattern[str]], ...]] = (
    ("en", _any(_ENGLISH_SUICIDAL)),
    ("de", _any(_GERMAN_SUICIDAL)),
)
_KINDS: Final[tuple[tuple[Kind, tuple[tuple[Language, re.Pattern[str]], ...]], ...]] = (
    ("suicidal", _SUICIDAL),
    ("bodily", _BODILY),
)


def emergency_in(message: str) -> tuple[Kind, Language] | None:
    """Return what kind of emergency a message tells of and its language, None for none.

    Only the beginning of a very long message is read.
    """
    text = " ".join(message[:_MAX_CHARS].translate(_QUOTES).casefold().split(" ")).strip()
    if _CASE.search(text):
        return None
    pieces = [" ".join(piece.split()) for piece in _PIECE.split(text)]
    for kind, patterns in _KINDS:
        for piece in dict.fromkeys((*pieces, " ".join(filter(None, pieces)))):
            for language, pattern in patterns:
                if piece and pattern.search(piece) and not _is_vetoed(piece):
                    return kind, language
    return None


def _is_vetoed(piece: str) -> bool:
    return any(veto.search(piece) for veto in (_STUDY, _PAST, _SUPPOSED)) or '"' in piece


_NUMBERS_EN: Final = (
    "call the emergency number now: 112 in Europe, 911 in the US and Canada, 999 in the UK, or your local number"
)
_NUMBERS_DE: Final = (
    "rufen Sie jetzt den Notruf: 112 in Europa, 911 in den USA und Kanada, 999 in Großbritannien, oder die Nummer "
    "vor Ort"
)
_TOOL_EN: Final = "This server is a research tool and cannot help in an emergency."
_TOOL_DE: Final = "Dieser Server ist ein Werkzeug für die Forschung und kann in einem Notfall nicht helfen."
_REPLIES: Final[dict[tuple[Kind, Language], str]] = {
    ("bodily", "en"): f"This sounds like an emergency: {_NUMBERS_EN}. {_TOOL_EN}",
    ("bodily", "de"): f"Das klingt nach einem Notfall: {_NUMBERS_DE}. {_TOOL_DE}",
    ("suicidal", "en"): (
        f"You do not have to be alone with this. In immediate danger, {_NUMBERS_EN}. To talk to someone at any time: "
        f"988 (US), Samaritans 116 123 (UK), TelefonSeelsorge 0800 1110111 (Germany), or a crisis line near you. "
        f"{_TOOL_EN}"
    ),
    ("suicidal", "de"): (
        f"Sie müssen damit nicht allein bleiben. Bei unmittelbarer Gefahr {_NUMBERS_DE}. Mit jemandem reden können Sie "
        f"jederzeit: TelefonSeelsorge 0800 1110111 (Deutschland), 988 (USA), Samaritans 116 123 (Großbritannien). "
        f"{_TOOL_DE}"
    ),
}


def emergency_reply(kind: Kind, language: Language) -> str:
    """Return the answer to an emergency."""
    return _REPLIES[kind, language]
