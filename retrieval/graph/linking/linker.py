"""Link a question to nodes by the dictionary or a model, and report what was not linked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from retrieval.graph.linking.dictionary_lookup.dictionary import MAX_TOKENS, Dictionary
from retrieval.graph.linking.dictionary_lookup.normalize import tokens_of
from retrieval.graph.linking.model_extraction import Entity, Extraction, Extractor, extract
from retrieval.graph.types import Linked, LinkOptions, Mention, Span, choices_start

MAX_QUESTION: Final = 20_000
_MAX_NOTES: Final = 16
_MAX_NAMES: Final = 5
_MAX_RUNS: Final = 64
# Characters that may separate two words of one name.
_JOINERS: Final = frozenset(" \t\n-‐‑–/'’")
_WORD: Final = re.compile(r"[^\W_]+(?:[-‐‑–][^\W_]+)*")


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
        notes = []
        if len(question) > MAX_QUESTION:
            notes.append(f"only the first {MAX_QUESTION} characters were looked at")
        if len(text) > MAX_TOKENS and len(tokens_of(text)) > MAX_TOKENS:
            notes.append(f"only the first {MAX_TOKENS} words were looked at")
        found = await (self._by_model if options.method == "model" else self._by_dictionary)(text, options)
        return _answer(text, options, _noted(found, notes), self.dictionary.is_ordinary)

    async def broader(self, question: str, mention: Mention) -> Mention | None:
        """Return another node whose name is part of the mention's words, for nodes too specific to have statements."""
        return await asyncio.to_thread(self.dictionary.broader, question, mention)

    async def _by_model(self, text: str, options: LinkOptions) -> Linked:
        extraction = await self._extracted(text, options)
        if not extraction.failure:
            return await asyncio.to_thread(self._resolved, extraction)
        found = await asyncio.to_thread(self.dictionary.read, text, options.kinds)
        return _noted(found, [f"{extraction.failure}; the dictionary was used"])

    async def _by_dictionary(self, text: str, options: LinkOptions) -> Linked:
        found = await asyncio.to_thread(self.dictionary.read, text, options.kinds)
        if options.method != "auto" or self.extractor is None or found.mentions or not tokens_of(text):
            return found
        extraction = await self._extracted(text, options)
        more = await asyncio.to_thread(self._resolved, extraction)
        return replace(found, mentions=more.mentions, notes=(*found.notes, *more.notes))

    async def _extracted(self, text: str, options: LinkOptions) -> Extraction:
        if self.extractor is None:
            return Extraction(failure="no model is loaded")
        kinds = tuple(kind for kind in self.dictionary.kinds if options.kinds is None or kind in options.kinds)
        return await extract(self.extractor, text, kinds, options.model_timeout_s)

    def _resolved(self, extraction: Extraction) -> Linked:
        mentions = []
        for entity in extraction.entities:
            kinds = frozenset({entity.kind})
            mention = self.dictionary.look_up(entity.name, kinds) or self._spelled(entity, kinds)
            if mention is not None:
                mentions.append(replace(mention, start=entity.start, end=entity.end, method="model"))
        notes = [extraction.failure] if extraction.failure else []
        if extraction.invented:
            notes.append(f"{extraction.invented} names that the model gave are not in the question")
        return Linked(mentions=tuple(mentions), notes=tuple(notes))

    def _spelled(self, entity: Entity, kinds: frozenset[str]) -> Mention | None:
        found = self.dictionary.find(entity.name, kinds)
        whole = len(found) == 1 and (found[0].start, found[0].end) == (0, len(entity.name))
        return found[0] if whole and found[0].method == "spelling" else None


def _noted(found: Linked, notes: Sequence[str]) -> Linked:
    return replace(found, notes=(*notes, *found.notes))


def _answer(text: str, options: LinkOptions, findings: Linked, is_ordinary: Callable[[str], bool]) -> Linked:
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
    used_spans = [(mention.start, mention.end) for mention in (*findings.mentions, *findings.classes)]
    unlinked = _unlinked(text[:border], used_spans, is_ordinary)
    notes += _unlinked_names(unlinked, notes)
    return Linked(
        mentions=tuple(question_mentions[: options.max_entities]),
        options=tuple(option_mentions[: options.max_entities]),
        classes=tuple(one for one in findings.classes if one.start < border)[: options.max_entities],
        concepts=tuple(one for one in findings.concepts if one.start < border)[: options.max_entities],
        unlinked=tuple(unlinked),
        notes=tuple(notes[:_MAX_NOTES]),
    )


def _unlinked_names(unlinked: Iterable[Span], notes: Iterable[str]) -> Iterable[str]:
    """Yield one note on the words that name nothing, unless a note has them already."""
    reported = " ".join(notes)
    names = dict.fromkeys(word for span in unlinked for word in span.text.split() if word not in reported)
    # Beyond a limit, words were not looked at.
    if names and "only the first " not in reported:
        yield "no node of the graph was found for " + ", ".join(f'"{name}"' for name in list(names)[:_MAX_NAMES])


def _ambiguous(text: str, mentions: Iterable[Mention]) -> Iterable[str]:
    for mention in mentions:
        if mention.margin == 0.0:
            name = text[mention.start : mention.end]
            yield f'"{name}" names several nodes; {mention.node.kind} {mention.node.identifier} was taken'


def _unlinked(text: str, used_spans: Iterable[tuple[int, int]], is_ordinary: Callable[[str], bool]) -> list[Span]:
    """Return at most 64 maximal runs of words outside ``used_spans`` that are not ordinary, split at punctuation."""
    used = set().union(*(range(start, end) for start, end in used_spans))
    runs: list[tuple[int, int]] = []
    is_open = False
    for word in _WORD.finditer(text):
        is_name = used.isdisjoint(range(*word.span())) and not is_ordinary(word[0])
        if is_name and is_open and set(text[runs[-1][1] : word.start()]) <= _JOINERS:
            runs[-1] = runs[-1][0], word.end()
        elif is_name:
            runs.append(word.span())
        is_open = is_name
    return [Span(start=start, end=end, text=text[start:end]) for start, end in runs[:_MAX_RUNS]]
