"""Rank by BM25, and count phrases, with a tantivy folder, as the only module that imports tantivy.

tantivy accepts no tokenizer written in Python, so passages are passed as terms separated by blanks and split at blanks;
terms are searched for as they are, through query objects: its query parser is never used. k1 is 1.2, b 0.75; lengths
are stored in one byte, so scores differ a little from exact ones, and of passages with equal scores at rank k, storage
order may decide which are returned. A filter by ids costs about a microsecond for each. Integers are signed (i64): ids
have 63 bits.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import tantivy

from retrieval.errors import INDEX_NOT_WRITTEN, IndexDamaged, IndexFault
from retrieval.index.base import Ids, RowFilter
from retrieval.lexical.base import TITLE_WEIGHT, WriterLock, checked_id, identity, read_manifest, write_manifest
from retrieval.lexical.keyword_frequency.phrases import Phrase, phrase_tokens
from retrieval.lexical.stems import stem
from retrieval.lexical.tantivy_files import KIND, META, IntactFiles, record_commit, verify_files
from retrieval.lexical.tokens import index_terms, query_groups
from retrieval.passages import Hit, Passage, type_bits
from retrieval.storage.files import make_filled_folder
from retrieval.types import NameInText

# Credit of a synonym against that of the name itself, chosen on half of BioASQ's questions.
_SYNONYM_SHARE: Final = 0.5
_NO_LIMIT: Final = 2**31 - 1
_TOKENS: Final = "phrases.text"


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalOptions:
    """Configure the index.

    ``max_terms``: only so many terms of a query are searched for, the rarest, since each term costs time and common
    words decide nothing. ``heap_bytes``: memory for passages not yet on the disk; ``threads``: writer threads.
    """

    max_terms: int = 24
    heap_bytes: int = 64_000_000
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    """Hold what is indexed of a passage: terms, and tokens of phrases, separated by blanks; the columns for filters."""

    passage_id: int
    terms: str
    tokens: str
    date: int
    types: int


def row_of(passage: Passage) -> Row:
    """Return the row of a passage.

    The title's terms count ``TITLE_WEIGHT`` times, as if it stood that often before the text (simple BM25F). Keywords
    do not count in it, since it is not part of what is shown as evidence.

    Raises:
        IndexFault: the id is not 1 to 2**63 - 1.
    """
    terms = index_terms(passage.title) * TITLE_WEIGHT + index_terms(passage.text)
    tokens = " ".join(phrase_tokens(passage.text))
    return Row(checked_id(passage), " ".join(map(stem, terms)), tokens, passage.date, type_bits(passage.types))


def open_tantivy(
    folder: Path, options: LexicalOptions | None = None, intact: IntactFiles | None = None
) -> TantivyIndex:
    """Open the index of ``folder``, or create it where there is none.

    Every file is checked before tantivy reads it; ``intact`` knows those that were checked before.

    Raises:
        IndexFault: another schema or tokenizer made it; it could not be created.
        IndexDamaged: files are missing or not what was written.
    """
    make_filled_folder(folder, _fill)
    read_manifest(folder, KIND)
    return TantivyIndex(folder, options or LexicalOptions(), intact or IntactFiles())


class TantivyIndex:
    """Implement ``LexicalIndex`` with tantivy.

    Searches continue while one thread writes; the next search sees the commits of other processes.
    """

    def __init__(self, folder: Path, options: LexicalOptions, intact: IntactFiles) -> None:
        self._folder = folder
        self._intact = intact
        self._options = options
        self._write_lock = threading.RLock()
        self._read_lock = threading.Lock()
        self._right = WriterLock(folder)
        self._writer: Any = None
        self._closed = False
        self._schema = _schema()
        self._seen = self._stamp()
        intact.check(folder)
        with _reading(folder):
            self._index = tantivy.Index.open(str(folder))
        self._index.register_tokenizer("terms", _at_blanks())

    def add(self, passages: Iterable[Passage], namespace: int = 0) -> int:
        count = 0
        with self._write_lock, self._writing():
            for passage in passages:
                row = row_of(passage)
                document = tantivy.Document()
                document.add_integer("passage_id", row.passage_id)
                document.add_integer("date", row.date)
                document.add_integer("namespace", namespace)
                for bit in _bits_of(row.types):
                    document.add_integer("type", bit)
                document.add_text("terms", row.terms)
                document.add_json("phrases", {"text": row.tokens})
                self._writer.delete_documents_by_term("passage_id", row.passage_id)
                self._writer.add_document(document)
                count += 1
        return count

    def delete(self, ids: Sequence[int]) -> None:
        with self._write_lock, self._writing():
            for passage_id in ids:
                self._writer.delete_documents_by_term("passage_id", int(passage_id))

    def commit(self) -> None:
        """Commit, wait for the segment merges that this requires, then release the writer lock."""
        with self._write_lock:
            if self._writer is None:
                return
            with self._writing():
                self._writer.commit()
            writer, self._writer = self._writer, None
            try:
                writer.wait_merging_threads()
                record_commit(self._folder)
            except (ValueError, OSError) as error:
                raise IndexFault(
                    f"{self._folder}: all was committed, but merging failed: {error}", INDEX_NOT_WRITTEN
                ) from error
            finally:
                self._right.release()
                with self._read_lock:
                    self._reload()

    def search(self, query: str, k: int, where: RowFilter | None = None, names: Sequence[NameInText] = ()) -> list[Hit]:
        searcher = self._searcher()
        limit = min(k, searcher.num_docs)
        if limit <= 0 or _admits_none(where):
            return []
        with _reading(self._folder):
            counts = _Counts(lambda term: searcher.doc_freq("terms", term), searcher.num_docs)
            groups = _rarest_terms(query, self._options.max_terms, counts.of_term)
            concepts = [one for name in names if (one := _concept_of(name, counts)) is not None]
            if not groups and not concepts:
                return []
            found = searcher.search(self._query(groups, concepts, where), limit, count=False).hits
            ids = searcher.fast_field_values("passage_id", [address for _, address in found])
        hits = [Hit(int(number or 0), float(score)) for (score, _), number in zip(found, ids, strict=True)]
        return sorted(hits, key=lambda hit: (-hit.score, hit.passage_id))

    def phrases(self) -> TantivyPhrases:
        return TantivyPhrases(self._folder, self._schema, self._searcher())

    def with_words(self, words: Sequence[Sequence[str]], where: RowFilter | None = None) -> Ids:
        searcher = self._searcher()
        ways = [self._joint(tantivy.Occur.Must, [[stem(term)] for term in terms]) for terms in words]
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, way) for way in ways])
        with _reading(self._folder):
            found = _matching(searcher, _filtered(self._schema, query, where), searcher.num_docs)
            return _ids_of(searcher, found)

    def __len__(self) -> int:
        return int(self._searcher().num_docs)

    def verify(self) -> None:
        """Check every file against its checksum.

        Raises:
            IndexDamaged: one is missing, truncated or changed; the message names it.
        """
        with self._write_lock:
            verify_files(self._folder)

    def close(self) -> None:
        """Close the index and discard uncommitted changes."""
        with self._write_lock, self._read_lock:
            self._drop_writer()
            self._closed = True

    def _query(
        self, groups: Sequence[Sequence[str]], concepts: Sequence[_Concept], where: RowFilter | None
    ) -> tantivy.Query:
        named = {term for concept in concepts for group in concept.name for term in group}
        rest = [group for group in groups if not named.intersection(group)]
        parts = [*map(self._best_of, rest), *map(self._best_name, concepts)]
        one = tantivy.Query.boolean_query([(tantivy.Occur.Should, part) for part in parts])
        return _filtered(self._schema, one, where)

    def _best_of(self, terms: Sequence[str]) -> tantivy.Query:
        """Return a query whose score is that of the best term."""
        words = [tantivy.Query.term_query(self._schema, "terms", term, "freq") for term in terms]
        return words[0] if len(words) == 1 else tantivy.Query.disjunction_max_query(words)

    def _best_name(self, concept: _Concept) -> tantivy.Query:
        """Return a query whose score is that of the name or of its best synonym, of which all words must be there."""
        ways = [self._joint(tantivy.Occur.Should, concept.name)] if concept.name else []
        for synonym, weight in concept.synonyms:
            ways.append(tantivy.Query.boost_query(self._joint(tantivy.Occur.Must, synonym), weight))
        return tantivy.Query.disjunction_max_query(ways)

    def _joint(self, occur: tantivy.Occur, groups: Sequence[Sequence[str]]) -> tantivy.Query:
        return tantivy.Query.boolean_query([(occur, self._best_of(group)) for group in groups])

    def _searcher(self) -> tantivy.Searcher:
        with self._read_lock:
            if self._closed:
                raise IndexFault(f"the index {self._folder} is closed")
            if self._stamp() != self._seen:
                self._reload()
            return self._index.searcher()

    def _reload(self) -> None:
        seen = self._stamp()
        self._intact.check(self._folder)
        with _reading(self._folder):
            self._index.reload()
        self._seen = seen

    def _stamp(self) -> tuple[int, int]:
        try:
            state = (self._folder / META).stat()
        except OSError as error:
            raise IndexDamaged(f"{self._folder}: {META} is missing") from error
        return state.st_mtime_ns, state.st_ino

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Take the writer lock, once until the next commit, and run the block.

        An error discards all changes since the last commit.
        """
        if self._closed:
            raise IndexFault(f"the index {self._folder} is closed")
        self._right.take()
        try:
            if self._writer is None:
                self._writer = self._index.writer(self._options.heap_bytes, self._options.threads)
            yield
        except (ValueError, OSError) as error:
            self._drop_writer()
            raise IndexFault(f"{self._folder}: {error}", INDEX_NOT_WRITTEN) from error
        except BaseException:
            self._drop_writer()
            raise

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            for end in (writer.rollback, writer.wait_merging_threads):  # its threads end also where it cannot go back
                with contextlib.suppress(ValueError, OSError):
                    end()
        self._right.release()


class TantivyPhrases:
    """Implement ``Phrases`` with tantivy, for the commit at which it was opened.

    Scores give the counts; those beyond some five hundred are not exact, as scores are 32 bits wide.
    """

    def __init__(self, folder: Path, schema: tantivy.Schema, searcher: tantivy.Searcher) -> None:
        self._folder = folder
        self._schema = schema
        self._searcher = searcher

    def known(self, tokens: Iterable[str]) -> dict[str, int]:
        with _reading(self._folder):
            return {token: number for token in tokens if (number := self._searcher.doc_freq(_TOKENS, token))}

    def has(self, phrase: Phrase) -> bool:
        if len(phrase) == 1:
            return bool(self.known(phrase))
        with _reading(self._folder):
            return bool(_matching(self._searcher, self._query(phrase), 1))

    def counts(self, phrase: Phrase, where: RowFilter | None = None) -> tuple[Ids, Ids]:
        query = self._query(phrase)
        with _reading(self._folder):
            most = min(self._searcher.doc_freq(_TOKENS, token) for token in phrase)
            found = _matching(self._searcher, _filtered(self._schema, query, where), most)
            weight, saturation = _scoring(query, self._searcher, found[0][1]) if found else (1.0, 0.0)
            ids = _ids_of(self._searcher, found)
        scores = np.array([score for score, _ in found], dtype=np.float64)
        return ids, np.rint(saturation * scores / (weight - scores)).astype(np.int64)

    def _query(self, phrase: Phrase) -> tantivy.Query:
        if len(phrase) == 1:
            return tantivy.Query.term_query(self._schema, _TOKENS, phrase[0])
        return tantivy.Query.phrase_query(self._schema, _TOKENS, list(phrase))


@dataclass(frozen=True, slots=True)
class _Counts:
    """Know in how many of all passages a term occurs."""

    of_term: Callable[[str], int]
    passages: int

    def weight(self, groups: Sequence[Sequence[str]]) -> float:
        """Return the sum of the inverse frequencies (BM25's) of the commonest term of each group."""
        return sum(self._inverse(max(map(self.of_term, group))) for group in groups)

    def _inverse(self, number: int) -> float:
        return math.log(1 + (self.passages - number + 0.5) / (number + 0.5))

    @property
    def highest(self) -> float:
        return self._inverse(0)


@dataclass(frozen=True, slots=True)
class _Concept:
    """Hold the term groups of a name, none where it occurs nowhere, and those of its synonyms with their weights."""

    name: list[list[str]]
    synonyms: list[tuple[list[list[str]], float]]


def _concept_of(name: NameInText, counts: _Counts) -> _Concept | None:
    """Return a name with those synonyms that occur and say something else; None where there are none."""
    own = [group for group in _known_groups(name.name, counts) if group]
    terms = {term for group in own for term in group}
    most = counts.weight(own) if own else counts.highest
    synonyms = []
    for synonym in name.synonyms:
        groups = _known_groups(synonym, counts)
        if groups and all(groups) and not all(terms.intersection(group) for group in groups):
            synonyms.append((groups, _SYNONYM_SHARE * min(1.0, most / counts.weight(groups))))
    return _Concept(own, synonyms) if synonyms else None


def _known_groups(text: str, counts: _Counts) -> list[list[str]]:
    """Return the groups of a text's terms, each without those that occur nowhere."""
    groups = [dict.fromkeys(stem(term) for term in group) for group in query_groups(text)]
    return [[term for term in group if counts.of_term(term)] for group in groups]


def _rarest_terms(query: str, limit: int, frequency: Callable[[str], int]) -> list[list[str]]:
    """Return at most ``limit`` groups of query terms that occur in passages, those with the rarest first, each once."""
    known: list[tuple[int, int, list[str]]] = []
    seen: set[str] = set()
    for place, group in enumerate(query_groups(query)):
        stems = dict.fromkeys(stem(term) for term in group)
        counts = {term: count for term in stems if term not in seen and (count := frequency(term))}
        seen |= counts.keys()
        if counts:
            known.append((min(counts.values()), place, list(counts)))
    return [terms for _, _, terms in sorted(known)[:limit]]


def _admits_none(where: RowFilter | None) -> bool:
    """Return whether the filter has an empty set of namespaces or of ids.

    Such a set admits no row, whereas a missing condition admits all.
    """
    if where is None:
        return False
    return (where.namespaces is not None and not where.namespaces) or (where.ids is not None and not len(where.ids))


def _scoring(query: tantivy.Query, searcher: tantivy.Searcher, address: tantivy.DocAddress) -> tuple[float, float]:
    """Return weight w and saturation s of a term's or a phrase's score, which is w · count / (count + s)."""
    steps = _steps(json.loads(query.explain(searcher, address).to_json()))
    facts = {step["description"].split(",")[0]: step["value"] for step in steps}
    length = 1 - facts["b"] + facts["b"] * facts["dl"] / facts["avgdl"]
    return facts["(K1+1)"] * facts["idf"], facts["k1"] * length


def _steps(explained: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield explained
    for step in explained.get("details", ()):
        yield from _steps(step)


def _bits_of(types: int) -> list[int]:
    """Return the positions of the set bits."""
    return [bit for bit in range(types.bit_length()) if types >> bit & 1]


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("passage_id", indexed=True, fast=True)
    builder.add_integer_field("date", indexed=True, fast=True)
    builder.add_integer_field("namespace", indexed=True)
    builder.add_integer_field("type", indexed=True)
    builder.add_text_field("terms", tokenizer_name="terms", index_option="freq")
    # A JSON field has no lengths, so that a score tells the number of occurrences.
    builder.add_json_field("phrases", tokenizer_name="terms", index_option="position")
    return builder.build()


def _at_blanks() -> tantivy.TextAnalyzer:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()


def _matching(searcher: tantivy.Searcher, query: tantivy.Query, limit: int) -> list[tuple[float, tantivy.DocAddress]]:
    return searcher.search(query, limit, count=False).hits if limit else []


def _ids_of(searcher: tantivy.Searcher, found: Sequence[tuple[float, tantivy.DocAddress]]) -> Ids:
    return np.array(searcher.fast_field_values("passage_id", [address for _, address in found]), dtype=np.int64)


def _filtered(schema: tantivy.Schema, query: tantivy.Query, where: RowFilter | None) -> tantivy.Query:
    if _admits_none(where):
        return tantivy.Query.empty_query()
    conditions = list(_conditions(schema, where)) if where else []
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, query), *conditions]) if conditions else query


def _conditions(schema: tantivy.Schema, where: RowFilter) -> Iterator[tuple[tantivy.Occur, tantivy.Query]]:
    """Yield every condition of the filter; none of them changes a score."""

    def one_of(field: str, values: Sequence[int]) -> tantivy.Query:
        return tantivy.Query.const_score_query(tantivy.Query.term_set_query(schema, field, values), 0.0)

    if where.namespaces is not None:
        yield tantivy.Occur.Must, one_of("namespace", sorted(where.namespaces))
    if where.ids is not None:
        yield tantivy.Occur.Must, one_of("passage_id", where.ids.tolist())
    if where.types:
        yield tantivy.Occur.Must, one_of("type", _bits_of(where.types))
    if where.without_types:
        yield tantivy.Occur.MustNot, one_of("type", _bits_of(where.without_types))
    if where.date_from or where.date_to:
        lowest, highest = max(where.date_from, 1), where.date_to or _NO_LIMIT
        dates = tantivy.Query.range_query(schema, "date", tantivy.FieldType.Integer, lowest, highest)
        yield tantivy.Occur.Must, tantivy.Query.const_score_query(dates, 0.0)


def _fill(folder: Path) -> None:
    try:
        tantivy.Index(_schema(), path=str(folder))
    except ValueError as error:
        raise OSError(str(error)) from error
    write_manifest(folder, identity(KIND))
    record_commit(folder)


@contextlib.contextmanager
def _reading(folder: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise IndexDamaged(f"{folder}: {error}") from error
    except BaseException as error:
        # A Rust panic over changed bytes is not an Exception, and its class cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise IndexDamaged(f"{folder}: {error}") from error
