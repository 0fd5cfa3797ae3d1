"""Hold each sentence of a written synthesis against the articles that it cites.

First by lookup: it has a mark, its numbers are those of articles that were read, and every identifier and number of it
stands in one of them. Then by the model's own yes or no: is it stated there? A sentence that fails is written again
once; one that fails again is struck out and counted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from models.errors import ArrowheadError
from models.types import GenerateParams
from server.methods.clinfo.conclusion import Claim
from server.methods.clinfo.judging import AT_ONCE, Judge
from server.methods.clinfo.literature import Article
from server.methods.clinfo.prompts import shown
from server.methods.shared.identifiers import EvidenceIndex, identifiers_in
from server.methods.shared.sentences import MARK, numbers_in, split_sentences

SUPPORTED: Final = 0.5
_MOST_SENTENCES: Final = 16
_REWRITE_TOKENS: Final = 160
_EVIDENCE_CHARS: Final = 8000
_STOP_BEFORE_MARK: Final = re.compile(r"([.?!])\s*(\[\d[\d,;– -]*\])")


@dataclass(frozen=True, slots=True)
class Verified:
    """Hold the sentences that the articles support, and the others as they were written last."""

    claims: tuple[Claim, ...]
    struck: tuple[str, ...]
    rewritten: int = 0


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a synthesis, each with its marks before its full stop."""
    moved = _STOP_BEFORE_MARK.sub(r" \2\1", " ".join(text.split()))
    # A bare "Yes [1]." is no sentence to the splitter.
    return [one.line for one in split_sentences(moved)][:_MOST_SENTENCES] or ([moved] if moved else [])


def fault_of(sentence: str, articles: Mapping[int, Article]) -> str:
    """Return what a lookup finds wrong with a sentence, "" for nothing."""
    numbers = numbers_in(sentence)
    if not numbers:
        return "it cites no article"
    if unknown := [number for number in numbers if number not in articles]:
        return f"it cites {', '.join(f'[{number}]' for number in unknown)}, which was not read"
    index = EvidenceIndex()
    for number in numbers:
        index.add(f"{articles[number].title}\n{articles[number].text}")
    missing = [one.text for one in identifiers_in(MARK.sub(" ", sentence)) if not index.has(one)]
    return f"{', '.join(missing)} stands in no article that it cites" if missing else ""


async def verified(sentences: Sequence[str], articles: Mapping[int, Article], judge: Judge) -> Verified:
    """Check all sentences at once; ``articles`` are those that were read, by number."""
    supported = await _supported(sentences, articles, judge)
    failed = [place for place, is_good in enumerate(supported) if not is_good]
    again = await _rewritten([sentences[place] for place in failed], articles, judge)
    second = await _supported(again, articles, judge)
    final = list(sentences)
    for place, text, is_good in zip(failed, again, second, strict=True):
        final[place], supported[place] = text, is_good
    claims = [_claim(text, articles) for text, is_good in zip(final, supported, strict=True) if is_good]
    struck = tuple(text for text, is_good in zip(final, supported, strict=True) if not is_good)
    return Verified(tuple(claims), struck, sum(second))


async def _supported(sentences: Sequence[str], articles: Mapping[int, Article], judge: Judge) -> list[bool]:
    good = [not fault_of(one, articles) for one in sentences]
    asked = [place for place, is_good in enumerate(good) if is_good]
    prompts = [judge.prompts.supported(_bare(sentences[at]), _evidence(sentences[at], articles)) for at in asked]
    for place, probability in zip(asked, await judge.all(prompts), strict=True):
        # A judgement that failed supports nothing.
        good[place] = probability is not None and probability >= SUPPORTED
    return good


async def _rewritten(sentences: Sequence[str], articles: Mapping[int, Article], judge: Judge) -> list[str]:
    """Return the sentences written again, all at once; one that cites nothing that was read stays as it is."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(sentence: str) -> str:
        evidence = _evidence(sentence, articles)
        if not evidence:
            return sentence
        async with slots:
            return await _rewrite(sentence, evidence, judge)

    return list(await asyncio.gather(*map(one, sentences)))


async def _rewrite(sentence: str, evidence: str, judge: Judge) -> str:
    user = judge.prompts.rewrite(sentence, evidence)
    params = GenerateParams(max_tokens=_REWRITE_TOKENS, cache_salt=judge.cache_salt, stop_on_repetition=True)
    try:
        found = await judge.generations.write(judge.layout.ids(judge.prompts.system, user), params)
    except ArrowheadError:
        return sentence
    lines = sentences_of(found.text)
    return lines[0] if lines else sentence


def _evidence(sentence: str, articles: Mapping[int, Article]) -> str:
    cited = [articles[number] for number in numbers_in(sentence) if number in articles]
    return "\n\n".join(shown(article, _EVIDENCE_CHARS // max(1, len(cited))) for article in cited)


def _bare(sentence: str) -> str:
    return " ".join(re.sub(r" +(?=[.,;:?!])", "", MARK.sub("", sentence)).split())


def _claim(sentence: str, articles: Mapping[int, Article]) -> Claim:
    return Claim(_bare(sentence), tuple(articles[number].key for number in numbers_in(sentence)), is_quote=False)
