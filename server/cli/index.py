"""Implement ``arrowhead index``: report, rebuild and fill the vector and word indices of namespaces."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.namespaces import opened, watched
from server.cli.options import ConfigFile, verbs

if TYPE_CHECKING:
    from retrieval.corpus.search.fitting import KnownQuestion

app = verbs("vector and word indices of namespaces")
Name = Annotated[str, typer.Argument(metavar="NAMESPACE")]


Encoder = Annotated[str, typer.Option(help="a name, hub id or folder that the settings name")]


class Target(StrEnum):
    """List the kinds of indices of a namespace; typer takes no list of literals."""

    VECTORS = "vectors"
    WORDS = "words"
    KEYWORDS = "keywords"


@app.command(help="types, rows and bytes of a namespace's indices")
def status(name: Name, config: ConfigFile = None) -> int:
    from retrieval.corpus.namespaces.namespace import is_dense

    with opened(config) as (_, retrieval), retrieval.namespaces.using(name) as namespace:
        pending = namespace.store.counts().pending
        for target in namespace.settings.targets:
            encoder = namespace.settings.encoder_of(target)
            shown = f"{target} ({encoder})" if encoder and encoder not in target else target
            if not namespace.has(target):
                print(f"{shown}\tnot made yet\t{pending[target]:,} to index")
                continue
            rows = namespace.rows(target)
            detail = ""
            if is_dense(target):
                stats = namespace.dense(target).vectors.stats()
                kinds = stats.detail.get("kinds", "")
                recall = stats.detail.get("recall")
                kinds = f"{kinds} recall@10 {recall:.3f}" if recall is not None else kinds
                detail = f"\t{stats.segments} segments {kinds}\t{stats.deleted:,} deleted\t{stats.bytes_disk:,} bytes"
            print(f"{shown}\t{rows:,} rows\t{pending[target]:,} to index{detail}")
    return 0


@app.command(help="give a namespace the vectors of one more encoder, beside those that it has")
def add(name: Name, encoder: Encoder, config: ConfigFile = None) -> int:
    with opened(config) as (_, retrieval):
        retrieval.encoders.check(encoder)
        retrieval.namespaces.add_encoder(name, encoder)
    return catch_up_namespace(name, config)


@app.command(help="take the vectors of an encoder away")
def remove(name: Name, encoder: Encoder, config: ConfigFile = None) -> int:
    with opened(config) as (_, retrieval):
        retrieval.namespaces.remove_encoder(name, encoder)
    print(f"{name}: vectors of {encoder} removed")
    return 0


@app.command(help="fit the weights of hybrid search to questions whose documents are known; 1 where they gain nothing")
def fit(
    name: Name,
    questions: Annotated[
        Path | None,
        typer.Argument(help='lines of JSON: {"question": "…", "documents": ["PMID:1", …]}', show_default=False),
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="go back to even weights")] = False,
    config: ConfigFile = None,
) -> int:
    from retrieval.corpus.search.fitting import fit_weights, forget_weights

    if (questions is None) is not forget:
        raise typer.BadParameter("either a file of questions or --forget is needed", param_hint="QUESTIONS")
    with opened(config) as (_, retrieval):
        if questions is None:
            forget_weights(retrieval.namespaces, name)
            print(f"{name}: even weights")
            return 0
        found = fit_weights(retrieval.namespaces, retrieval.searcher, name, known_questions(questions))
    print(
        f"{name}: words {found.weights.words:g}, late interaction {found.weights.late:g}, chosen on "
        f"{found.chosen_on:,} questions; MAP@10 on {found.decided_on:,} others {found.after:.3f}, "
        f"before {found.before:.3f}, difference {found.after - found.before:+.3f} "
        f"({found.low:+.3f} to {found.high:+.3f})"
    )
    print(f"{name}: {'stored' if found.stored else 'not stored, as they do not gain for sure'}")
    return 0 if found.stored else 1


def known_questions(path: Path) -> list[KnownQuestion]:
    """Read questions with their documents.

    Raises:
        SettingsInvalid: the file cannot be read, or a line is not what it must be; the message has its number.
    """
    from retrieval.corpus.search.fitting import KnownQuestion
    from server.settings.loading import SettingsInvalid

    found: list[KnownQuestion] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsInvalid(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line or "{}")
            text, documents = row["question"], row["documents"]
            if not isinstance(text, str) or not text.strip() or not isinstance(documents, list):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            message = 'a line is {"question": "…", "documents": ["PMID:1", …]}'
            raise SettingsInvalid(f"{path}:{number}: {message}") from None
        found.append(KnownQuestion(text, frozenset(map(str, documents))))
    return found


@app.command(help="make an index again from the namespace's passages")
def rebuild(
    name: Name,
    index: Annotated[list[Target] | None, typer.Option(help="default: all; vectors are those of all encoders")] = None,
    config: ConfigFile = None,
) -> int:
    with opened(config) as (_, retrieval):
        with retrieval.namespaces.using(name) as namespace:
            targets = namespace.settings.targets
        for target in targets:
            if not index or target.partition(":")[0] in index:
                retrieval.namespaces.empty_index(name, target)
    return catch_up_namespace(name, config)


@app.command("catch-up", help="index what waits to be indexed")
def catch_up_namespace(name: Name, config: ConfigFile = None) -> int:
    from retrieval.corpus.ingest.add import catch_up

    with opened(config) as (_, retrieval), watched(name) as watch:
        added = catch_up(retrieval.namespaces, name, watch)
    print(f"{name}: {added.indexed:,} entries indexed")
    return 0


@app.command(help="take in NCBI's MedCPT embeddings of PubMed")
def medcpt(
    name: Name,
    folder: Annotated[Path, typer.Argument(help="with embeds_chunk_*.npy, pmids_chunk_*.json, pubmed_chunk_*.json")],
    estimate: Annotated[bool, typer.Option("--estimate", help="only say what the vectors will take")] = False,
    config: ConfigFile = None,
) -> int:
    from rich.console import Console

    from retrieval.corpus.ingest.medcpt import add_medcpt, estimate_medcpt
    from server.printable import unescaped

    needed = estimate_medcpt(folder)
    print(f"{folder}: vectors take {needed.disk / 2**30:.2f} GiB on the disk, {needed.memory / 2**30:.2f} in memory")
    if estimate:
        return 0
    with opened(config) as (_, retrieval), Console(file=unescaped(sys.stderr)).status(name) as status:
        report = add_medcpt(
            retrieval.namespaces,
            name,
            folder,
            lambda count: status.update(f"{name}: {count:,} articles"),
        )
    print(
        f"{name}: {report.rows:,} articles with embeddings, {report.without_text:,} embeddings without text, "
        f"{report.without_row:,} texts without embedding, {len(report.passed_over)} chunks were there"
    )
    return catch_up_namespace(name, config)
