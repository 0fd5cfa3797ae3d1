"""Provide the prompts of a review. Pure; the wording is ours, the parts are those of the paper.

What many calls share comes first (instruction, question), so that the engine's prefix cache computes it once; the
article of a call comes last.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Literal, get_args

from server.methods.clinfo.literature import Article
from server.methods.clinfo.statements import addresses_reader
from server.methods.shared.sentences import sanitize, split_sentences

Part = Literal["system", "queries", "relevant", "supported", "contradicts", "table", "synthesis", "rewrite"]
_PARTS: Final[tuple[Part, ...]] = get_args(Part)
# A longer text is cut: the one-token judgements read at most so much of an article.
MAX_CHARS: Final = 6000


@dataclass(frozen=True, slots=True)
class Prompts:
    """Hold all instructions by name, read once."""

    parts: dict[Part, str]

    @classmethod
    def load(cls) -> Prompts:
        folder = files("server.methods.clinfo") / "prompts"
        return cls({name: (folder / f"{name}.txt").read_text(encoding="utf-8").strip() for name in _PARTS})

    @property
    def system(self) -> str:
        return self.parts["system"]

    def queries(self, question: str, most: int) -> str:
        return f"{self.parts['queries'].replace('{most}', str(most))}\n\nQuestion: {question}"

    def about(self, part: Part, question: str, article: Article) -> str:
        """Return the instruction, the question and an article."""
        return f"{self.parts[part]}\n\nQuestion: {question}\n\nArticle:\n{shown(article)}"

    def supported(self, sentence: str, evidence: str) -> str:
        return f"{self.parts['supported']}\n\nArticle text:\n{evidence}\n\nSentence: {sentence}"

    def contradicts(self, sentence: str, article: Article) -> str:
        return f"{self.parts['contradicts']}\n\nSentence: {sentence}\n\nArticle:\n{shown(article)}"

    def rewrite(self, sentence: str, evidence: str) -> str:
        return f"Article text:\n{evidence}\n\n{self.parts['rewrite']}\n\nSentence: {sentence}"

    def synthesis(self, question: str, articles: str) -> str:
        return f"Question: {question}\n\nArticles:\n{articles}\n\nQuestion: {question}\n\n{self.parts['synthesis']}"


def shown(article: Article, most: int = MAX_CHARS) -> str:
    """Return an article as models read it: without marks of its own, and without what addresses a reader."""
    lines = [sanitize(article.title)] if article.title else []
    for section in article.sections:
        kept = [one.line for one in split_sentences(section.text) if not addresses_reader(one.line)]
        text = sanitize(" ".join(kept) or ("" if addresses_reader(section.text) else section.text))
        lines.append(f"{section.label}: {text}" if section.label else text)
    return "\n   ".join(line for line in lines if line)[:most]
