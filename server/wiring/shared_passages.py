"""Choose where passages and their indices lie: in files of this server, or in a database that several servers share."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from models.encoders.base import Encoder, EncoderFingerprint
from retrieval.corpus.namespaces.namespace import TOKENS
from retrieval.corpus.namespaces.settings import VECTORS, Backends, FolderStorage, IndexStorage
from retrieval.corpus.store.base import PassageStores, Target
from retrieval.corpus.store.postgres_stores import PostgresPassageStores
from retrieval.corpus.store.sqlite_stores import SqlitePassageStores
from retrieval.index.base import VectorIndex
from retrieval.index.open import committed_recall, committed_rows
from retrieval.index.pgvector.indices import IndexKey, PgVectorIndices, drop_indices
from retrieval.index.pgvector.token_store import SharedTokenStore, has_codes, remove_codes
from retrieval.index.spec import IndexSpec
from retrieval.index.token_store import TokenCodes, open_token_store
from retrieval.storage.database import SharedDatabase

# A change of a namespace waits so long for one of another server.
_LOCK_WAIT_S: Final = 60.0
_FOLDER: Final = ".shared"


def passage_stores(data_dir: Path, database: SharedDatabase | None = None) -> PassageStores:
    """Return the stores of a server's namespaces, in the database where there is one."""
    if database is None:
        return SqlitePassageStores(data_dir)
    return PostgresPassageStores(shared_root(data_dir), database, drop_indices, wait_s=_LOCK_WAIT_S)


def shared_root(data_dir: Path) -> Path:
    """Return the folder of what this server derives from shared namespaces, whose names never begin with a dot."""
    return data_dir / _FOLDER


class SharedBackends:
    """Open the stores and indices below one folder in the database; all others, as files."""

    def __init__(self, root: Path, database: SharedDatabase, files: Backends) -> None:
        """``files`` opens what lies elsewhere, such as the notes of the package."""
        self._root = root
        self._database = database
        self._files = files
        self._indices = PgVectorIndices(database)
        self._storage: IndexStorage = SharedStorage(root, database, self._indices)

    def backends(self) -> Backends:
        return Backends(
            stores=self.stores,
            encoders=self._files.encoders,
            vectors=self._vectors,
            words=self._files.words,
            vector_rows=self._rows,
            vector_recall=self._recall,
            check_files=self._check_files,
            tokens=self._tokens,
            storage=self._storage,
        )

    def stores(self, root: Path) -> PassageStores:
        return passage_stores(root.parent, self._database) if root == self._root else self._files.stores(root)

    def _vectors(self, folder: Path, encoder: Encoder, write: bool) -> VectorIndex:
        index_key = index_key_of(self._root, folder)
        if index_key is None:
            return self._files.vectors(folder, encoder, write)
        spec = IndexSpec(dim=encoder.dim, metric=encoder.metric, encoder=encoder.fingerprint.as_dict())
        return self._indices.open(index_key, spec, write=write)

    def _rows(self, folder: Path) -> int:
        index_key = index_key_of(self._root, folder)
        return committed_rows(folder) if index_key is None else self._indices.rows(index_key)

    def _recall(self, folder: Path) -> float | None:
        index_key = index_key_of(self._root, folder)
        return committed_recall(folder) if index_key is None else self._indices.recall(index_key)

    def _check_files(self, folder: Path, target: Target) -> None:
        """Check an index that is files; the database checks its own pages."""
        if self._files.check_files is not None and index_key_of(self._root, folder) is None:
            self._files.check_files(folder, target)

    def _tokens(self, folder: Path, fingerprint: EncoderFingerprint, write: bool) -> TokenCodes:
        index_key = index_key_of(self._root, folder)
        if index_key is None:
            return open_token_store(folder, fingerprint, write)
        return SharedTokenStore(self._database, index_key.namespace, fingerprint, write=write)


class SharedStorage:
    """Implement ``IndexStorage``: vectors and token vectors in the database, other indices as folders."""

    def __init__(self, root: Path, database: SharedDatabase, indices: PgVectorIndices) -> None:
        self._root = root
        self._database = database
        self._indices = indices
        self._folders = FolderStorage()

    def exists(self, folder: Path) -> bool:
        index_key = index_key_of(self._root, folder)
        if index_key is None:
            return self._folders.exists(folder)
        return (
            has_codes(self._database, index_key.namespace)
            if index_key.name == TOKENS
            else self._indices.exists(index_key)
        )

    def remove(self, folder: Path) -> None:
        index_key = index_key_of(self._root, folder)
        if index_key is None:
            self._folders.remove(folder)
        elif index_key.name == TOKENS:
            remove_codes(self._database, index_key.namespace)
        else:
            self._indices.remove(index_key)

    def starting(self, folder: Path, prefix: str) -> list[Path]:
        if folder.parent != self._root:
            return self._folders.starting(folder, prefix)
        return [folder / name for name in self._indices.names(folder.name) if name.startswith(prefix)]


def index_key_of(root: Path, folder: Path) -> IndexKey | None:
    """Return the key in the database of the index that a folder stands for, None for one that is files."""
    if folder.parent.parent != root or not folder.name.startswith((VECTORS, TOKENS)):
        return None
    return IndexKey(folder.parent.name, folder.name)
