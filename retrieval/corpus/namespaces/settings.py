"""Define the name and the settings of a namespace, which are chosen once and stored with it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from models.encoders.base import Encoder, EncoderFingerprint
from models.files import parse_json
from retrieval.corpus.chunking import Chunking
from retrieval.corpus.store.base import TARGETS, PassageStores, Target
from retrieval.errors import NamespaceDamaged, NamespaceInvalid
from retrieval.index.base import VectorIndex
from retrieval.index.token_store import TokenCodes, open_token_store
from retrieval.lexical.base import LexicalIndex

VECTORS: Final[Target] = "vectors"
_BACKEND: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
_MAX_ENCODER: Final = 500
_MAX_ENCODERS: Final = 8
NO_WORDS: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceSettings:
    """Choose the encoder, the indices and the chunking of a namespace.

    ``encoder``: the id of the encoder of its vectors, "" for none; ``encoders``: those of further ones, each with an
    index of its own. ``words``: the lexical back end, which also counts keywords (PES2), or "none". ``tokens``: whether
    token vectors are stored beside the vectors, for late interaction, where the encoder has them.

    Raises:
        NamespaceInvalid: an invalid value.
    """

    encoder: str = ""
    encoders: tuple[str, ...] = ()
    words: str = "tantivy"
    tokens: bool = True
    chunking: Chunking = field(default_factory=Chunking)

    def __post_init__(self) -> None:
        if not all(map(_is_id, (self.encoder or "-", *self.encoders))):
            raise NamespaceInvalid("an encoder's id is a name, a hub id or a folder", param="encoder")
        if len({self.encoder, *self.encoders}) <= len(self.encoders) or (self.encoders and not self.encoder):
            raise NamespaceInvalid("further encoders differ from each other and from the first", param="encoder")
        if len(self.encoders) >= _MAX_ENCODERS:
            raise NamespaceInvalid(f"a namespace has at most {_MAX_ENCODERS} encoders", param="encoder")
        if _BACKEND.fullmatch(self.words) is None:
            raise NamespaceInvalid("a lexical back end's name has small letters, digits, _ and -", param="words")

    @property
    def targets(self) -> tuple[Target, ...]:
        """Return the indices that the namespace has."""
        has = {VECTORS: bool(self.encoder), "words": self.words != NO_WORDS}
        further = tuple(self.target_of(encoder) for encoder in self.encoders)
        return (*(target for target in TARGETS if has[target]), *further)

    @property
    def encoder_ids(self) -> tuple[str, ...]:
        """Return the ids of all encoders, the first one first."""
        return (self.encoder, *self.encoders) if self.encoder else ()

    def target_of(self, encoder: str) -> Target:
        """Return the index of an encoder's vectors, whether or not the namespace has it."""
        return VECTORS if encoder == self.encoder else f"{VECTORS}:{encoder}"

    def encoder_of(self, target: Target) -> str:
        """Return the encoder of an index, "" for one that is not of vectors."""
        return next((encoder for encoder in self.encoder_ids if self.target_of(encoder) == target), "")

    def as_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


class IndexStorage(Protocol):
    """Tell which indices exist, by the folders that they have, or would have where they lie elsewhere; remove them."""

    def exists(self, folder: Path) -> bool:
        """Return whether there is an index; before the first passage there may be none."""

    def remove(self, folder: Path) -> None:
        """Remove an index, if there is one."""

    def starting(self, folder: Path, prefix: str) -> list[Path]:
        """Return the folders of the indices of a namespace whose names begin with ``prefix``, sorted."""


def remove_index(folder: Path) -> None:
    """Remove the folder of an index, or what stands in its place.

    Raises:
        NamespaceDamaged: it cannot be removed.
    """
    try:
        shutil.rmtree(folder) if folder.is_dir() and not folder.is_symlink() else folder.unlink(missing_ok=True)
    except OSError as error:
        raise NamespaceDamaged(f"{folder}: cannot be removed: {error.strerror}") from error


class FolderStorage:
    """Implement ``IndexStorage`` for indices that are folders."""

    def exists(self, folder: Path) -> bool:
        return folder.is_dir() and any(folder.iterdir())

    def remove(self, folder: Path) -> None:
        remove_index(folder)

    def starting(self, folder: Path, prefix: str) -> list[Path]:
        return sorted(path for path in folder.glob(f"{prefix}*") if path.is_dir())


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """Open the stores, encoders and indices of namespaces.

    ``stores`` takes the folder of all namespaces, below which it may keep its files.

    Each callable for indices opens what a folder contains, as its single writer where the last argument says so, else
    as one of many readers. A writer finds its folder missing or empty the first time, and leaves an index there that
    readers can open, even an empty one.

    ``encoders`` returns the same object for the same id as long as it is loaded; ``words`` takes the back end's name.
    ``vector_rows`` returns the rows that the vectors of a folder have committed, without an encoder; None where only
    the open index tells. ``vector_recall``: their measured recall at 10, None where it is not known. ``check_files``
    reads every byte of the folder of an index and raises IndexDamaged; None where indices have no digests. ``tokens``
    opens token vectors; ``storage`` knows where indices lie.
    """

    stores: Callable[[Path], PassageStores]
    encoders: Callable[[str], Encoder]
    vectors: Callable[[Path, Encoder, bool], VectorIndex]
    words: Callable[[Path, str, bool], LexicalIndex]
    vector_rows: Callable[[Path], int] | None = None
    vector_recall: Callable[[Path], float | None] | None = None
    check_files: Callable[[Path, Target], None] | None = None
    tokens: Callable[[Path, EncoderFingerprint, bool], TokenCodes] = open_token_store
    storage: IndexStorage = field(default_factory=FolderStorage)


def settings_of(text: str) -> NamespaceSettings:
    """Parse settings from the output of ``as_text``.

    Raises:
        NamespaceInvalid: any other text.
    """
    try:
        fields: dict[str, Any] = parse_json(text)
        chunking = fields["chunking"]
        sizes = {name: chunking[name] for name in ("size", "overlap")}
        tokens = fields["tokens"]
        flags = (chunking["by_section"], tokens)
        if not all(type(value) is int for value in sizes.values()) or not all(type(flag) is bool for flag in flags):
            raise TypeError("chunking")
        return NamespaceSettings(
            encoder=str(fields["encoder"]),
            encoders=tuple(map(str, fields["encoders"])),
            words=str(fields["words"]),
            tokens=tokens,
            chunking=Chunking(size=sizes["size"], overlap=sizes["overlap"], by_section=chunking["by_section"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NamespaceInvalid("these are no settings of a namespace", param="settings") from error


def _is_id(encoder: str) -> bool:
    return encoder.isprintable() and 0 < len(encoder) <= _MAX_ENCODER and encoder == encoder.strip()


def with_encoders(text: str, encoders: Sequence[str]) -> str:
    """Return valid settings with these encoders, the first one first, and with all else as it was stored."""
    first, further = (encoders[0], list(encoders[1:])) if encoders else ("", [])
    return json.dumps(json.loads(text) | {"encoder": first, "encoders": further}, sort_keys=True)
