"""Link a question to nodes by the dictionary or a model, and report what was not linked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from retrieval.graph.linking.dictionary_lookup.ambiguity import is_function_word, is_kind_word
from retrieval.graph.linking.dictionary_lookup.dictionary import MAX_TOKENS, Dictionary
from retrieval.graph.linking.dictionary_lookup.normalize import Token, tokens_of
from retrieval.graph.linking.model_extraction import Entity, Extractor, extract
from retrieval.graph.types import Linked, LinkOptions, Mention, Span, choices_start

MAX_QUESTION: Final = 20_000
_MAX_NOTES: Final = 16
_MAX_NAMES: Final = 5
_MAX_RUNS: Final = 64
# Characters that may separate two words of one name.
_JOINERS: Final = frozenset(" \t\n-‐‑–/'’")


@dataclass(slots=True)
class _Findings:
    mentions: list[Mention] = field(default_factory=list)
    classes: list[Mention] = field(default_factory=list)
    concepts: list[Mention] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def used_spans(self) -> list[tuple[int, int]]:
        return [(mention.start, mention.end) for mention in (*self.mentions, *self.classes)]


@dataclass(frozen=True, slots=True)
class Linker:
    """Link questions to nodes, from many tasks concurrently.

    ``extractor`` is optional; where the method needs a missing one, the dictionary is used and a note added.
    """

    dictionary: Dictionary
    extractor: Extractor | None = None

    async def link(self, question: str, options: LinkOptions | None = None) -> Linked:
        """Link the first 20,000 characters of a question.

        Raises:
            Exception: whatever the store raises.
        """
        options = options or LinkOptions()
        text = question[:MAX_QUESTION]
        findings = _Findings()
        if len(question) > MAX_QUESTION:
            findings.notes.append(f"only the first {MAX_QUESTION} characters were looked at")
        if len(text) > MAX_TOKENS and len(tokens_of(text)) > MAX_TOKENS:
            findings.notes.append(f"only the first {MAX_TOKENS} words were looked at")
        if options.method == "model":
            await self._by_model(text, options, findings)
        else:
            await self._by_dictionary(text, options, findings)
        is_open = options.method == "auto" and self.extractor is not None and not findings.mentions
        if is_open and free_runs(text):
            await self._by_model(text, options, findings, fall_back=False)
        return _answer(text, options, findings, self.dictionary.is_ordinary)

    async def broader(self, question: str, mention: Mention) -> Mention | None:
        """Return another node whose name is part of the mention's words, for nodes too specific to have statements."""
        return await asyncio.to_thread(self.dictionary.broader, question, mention)

    async def _by_dictionary(self, text: str, options: LinkOptions, findings: _Findings) -> None:
        reading = await asyncio.to_thread(self.dictionary.read, text, options.kinds)
        findings.mentions.extend(reading.mentions)
        findings.classes.extend(reading.classes)
        findings.concepts.extend(reading.concepts)
        findings.notes.extend(reading.notes)

    async def _by_model(self, text: str, options: LinkOptions, findings: _Findings, *, fall_back: bool = True) -> None:
        if self.extractor is None:
            failure = "no model is loaded"
        else:
            kinds = [kind for kind in self.dictionary.kinds if options.kinds is None or kind in options.kinds]
            found = await extract(self.extractor, text, tuple(kinds), options.model_timeout_s)
            failure = found.failure
            if found.invented:
                findings.notes.append(f"{found.invented} names that the model gave are not in the question")
            findings.mentions.extend(await asyncio.to_thread(self._resolve, found.entities))
        if failure:
            findings.notes.append(failure + ("; the dictionary was used" if fall_back else ""))
            if fall_back:
                await self._by_dictionary(text, options, findings)

    def _resolve(self, entities: Sequence[Entity]) -> list[Mention]:
        found: list[Mention] = []
        for entity in entities:
            kinds = frozenset({entity.kind})
            mention = self.dictionary.look_up(entity.name, kinds) or self._spelled(entity, kinds)
            if mention is not None:
                found.append(replace(mention, start=entity.start, end=entity.end, method="model"))
        return found

    def _spelled(self, entity: Entity, kinds: frozenset[str]) -> Mention | None:
        found = self.dictionary.find(entity.name, kinds)
        whole = len(found) == 1 and (found[0].start, found[0].end) == (0, len(entity.name))
        return found[0] if whole and found[0].method == "spelling" else None


def _answer(text: str, options: LinkOptions, findings: _Findings, is_ordinary: Callable[[str], bool]) -> Linked:
    border = choices_start(text)
    question_mentions: list[Mention] = []
    option_mentions: list[Mention] = []
    seen: set[str] = set()
    for mention in sorted(findings.mentions, key=lambda mention: (mention.start, mention.end)):
        if mention.node.node_id not in seen:
            seen.add(mention.node.node_id)
            (question_mentions if mention.start < border else option_mentions).append(mention)
    notes = [*findings.notes, *_ambiguous(text, question_mentions)]
    for found, what in ((question_mentions, "names"), (option_mentions, "answers to choose from")):
        if len(found) > options.max_entities:
            notes.append(f"{len(found) - options.max_entities} of {len(found)} {what} were left out (max_entities)")
    unlinked = free_runs(text[:border], findings.used_spans)
    notes += _unlinked_names(unlinked, notes, is_ordinary)
    return Linked(
        mentions=tuple(question_mentions[: options.max_entities]),
        options=tuple(option_mentions[: options.max_entities]),
        classes=tuple(one for one in findings.classes if one.start < border)[: options.max_entities],
        concepts=tuple(one for one in findings.concepts if one.start < border)[: options.max_entities],
        unlinked=tuple(unlinked),
        notes=tuple(notes[:_MAX_NOTES]),
    )


def _unlinked_names(
    unlinked: Iterable[Span], notes: Iterable[str], is_ordinary: Callable[[str], bool]
) -> Iterable[str]:
    """Yield one note on the words outside all mentions that are no ordinary ones, unless a note has them already."""
    reported = " ".join(notes)
    words = (word for span in unlinked for word in span.text.split())
    names = dict.fromkeys(word for word in words if word not in reported and not is_ordinary(word))
    # Beyond a limit, words were not looked at.
    if names and "only the first " not in reported:
        yield "no node of the graph was found for " + ", ".join(f'"{name}"' for name in list(names)[:_MAX_NAMES])


def _ambiguous(text: str, mentions: Iterable[Mention]) -> Iterable[str]:
    for mention in mentions:
        if mention.margin == 0.0:
            name = text[mention.start : mention.end]
            yield f'"{name}" names several nodes; {mention.node.kind} {mention.node.identifier} was taken'


def free_runs(text: str, used_spans: Iterable[tuple[int, int]] = ()) -> list[Span]:
    """Return at most 64 maximal runs of content words outside ``used_spans``, split at punctuation."""
    return [_span(text, run) for run in _runs(text, list(used_spans))][:_MAX_RUNS]


def _runs(text: str, used_spans: list[tuple[int, int]]) -> list[list[Token]]:
    runs: list[list[Token]] = []
    run: list[Token] = []
    covered = bytearray(len(text))
    for start, end in used_spans:
        covered[start:end] = b"\1" * (end - start)
    for token in tokens_of(text):
        free = not any(covered[token.start : token.end])
        joined = not run or set(text[run[-1].end : token.start]) <= _JOINERS
        if not joined and run:
            runs.append(run)
            run = []
        if free and not is_function_word(token.text):
            run.append(token)
        elif run:
            runs.append(run)
            run = []
    runs.append(run)
    return [trimmed for trimmed in map(_trimmed, runs) if trimmed]


def _trimmed(run: list[Token]) -> list[Token]:
    while run and is_kind_word((run[0].text,)):
        run = run[1:]
    while run and is_kind_word((run[-1].text,)):
        run = run[:-1]
    return run


def _span(text: str, tokens: list[Token]) -> Span:
    start, end = tokens[0].start, tokens[-1].end
    return Span(start=start, end=end, text=text[start:end])
