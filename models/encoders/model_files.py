"""Find the files of an encoder locally, or download them where that is allowed, and compute their digests.

Owns where files lie and their digests. Reads no weights into memory and knows no torch.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from models.catalog import PICKLES, disable_hub_access
from models.errors import ENCODER_UNUSABLE, ModelNotFound
from models.files import read_json, sha256_of

_HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_FETCHED: Final = ("*.json", "*.safetensors", "*.txt", "*.model")
# Exported copies of the weights for other runtimes.
_NOT_FETCHED: Final = ("onnx/*", "openvino/*")
_WEIGHTS: Final = "model.safetensors"
_WEIGHTS_INDEX: Final = "model.safetensors.index.json"
_PICKLED: Final = "pytorch_model.bin"
_TOKENIZER: Final = ("tokenizer.json", "tokenizer_config.json", "added_tokens.json")
_VOCABULARIES: Final = ("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model")
_SENTENCE_CONFIG: Final = "sentence_bert_config.json"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """Locate the files of one model.

    ``root`` is the downloaded folder, ``revision`` the commit or package version, "" for a local directory.
    """

    root: Path
    revision: str = ""
    subfolder: str = ""

    @property
    def path(self) -> Path:
        """Return the directory of config.json, tokenizer and weights."""
        return self.root / self.subfolder


def locate(source: str, *, revision: str | None, allow_download: bool, package: str = "") -> ModelFolder:
    """Return the folder of a package, a directory or a hub id, with local files preferred to a download.

    Raises:
        ModelNotFound: it is not on this machine and may not, or cannot, be downloaded.
    """
    if package:
        folder = _in_package(package)
        if folder is not None:
            return folder
    directory = Path(source).expanduser()
    if directory.is_dir():
        return ModelFolder(directory)
    if not _HUB_ID.fullmatch(source):
        raise ModelNotFound(f"{source} is neither a directory nor a hub id (owner/name)")
    return _from_hub(source, revision, allow_download)


def _in_package(package: str) -> ModelFolder | None:
    # Located, not imported: the package's own code could import anything.
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "model"
        if (folder / "config.json").is_file():
            return ModelFolder(folder, f"{package} {importlib.metadata.version(package)}")
    return None


def _from_hub(source: str, revision: str | None, allow_download: bool) -> ModelFolder:
    if not allow_download:
        disable_hub_access()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    def snapshot(*, local_files_only: bool) -> ModelFolder:
        path = snapshot_download(
            source,
            revision=revision,
            local_files_only=local_files_only,
            allow_patterns=list(_FETCHED),
            ignore_patterns=list(_NOT_FETCHED),
        )
        return ModelFolder(Path(path), Path(path).name)

    try:
        # A folder in the cache may be incomplete: other programs download single files.
        folder = snapshot(local_files_only=True)
        if _is_complete(folder.root) or not allow_download:
            return folder
    except LocalEntryNotFoundError as error:
        if not allow_download:
            raise ModelNotFound(
                f"{source} ({revision or 'main'}) is not on this machine: copy it into the Hugging Face cache, "
                "name a directory or another revision instead, or allow the download"
            ) from error
    try:
        return snapshot(local_files_only=False)
    except Exception as error:
        # The library raises its own errors, those of its HTTP client and those of the system.
        raise ModelNotFound(f"{source} could not be fetched: {type(error).__name__}: {error}") from error


def _is_complete(root: Path) -> bool:
    return any((file.parent / "config.json").is_file() for file in root.rglob("*.safetensors"))


def weight_files(folder: ModelFolder) -> list[Path]:
    """Return the safetensors files to load.

    Raises:
        ModelNotFound: there are none; there are only weights in a format that can run code when read.
    """
    path = folder.path
    if (path / _WEIGHTS).is_file():
        return [path / _WEIGHTS]
    if (path / _WEIGHTS_INDEX).is_file():
        shards = sorted(set(read_json(path / _WEIGHTS_INDEX).get("weight_map", {}).values()))
        missing = [name for name in shards if Path(name).name != name or not (path / name).is_file()]
        if missing or not shards:
            raise ModelNotFound(f"{path / _WEIGHTS_INDEX} names weights that are missing: {', '.join(missing)}")
        return [path / name for name in shards]
    pickles = sorted(file.name for pattern in PICKLES for file in path.glob(pattern))
    if pickles:
        raise ModelNotFound(
            f"{path} has its weights only as {', '.join(pickles)}, a format that can run code when read: "
            f"scripts/convert_weights.py makes {_WEIGHTS} of it once",
            ENCODER_UNUSABLE,
        )
    raise ModelNotFound(
        f"{path} holds no weights ({_WEIGHTS}); where their publisher has only {_PICKLED}, download that folder whole, "
        "convert it with scripts/convert_weights.py, and name the directory"
    )


def digests(folder: ModelFolder) -> tuple[tuple[str, str], ...]:
    """Return name and sha256 of every file that determines a vector (config, tokenizer, weights), sorted by name.

    Raises:
        ModelNotFound: one of them is missing.
    """
    path = folder.path
    tokenizer = [path / name for name in _TOKENIZER]
    if not tokenizer[0].is_file():
        tokenizer += [path / name for name in _VOCABULARIES]
    config = path / "config.json"
    if not config.is_file():
        raise ModelNotFound(f"{path} holds no model: it needs config.json, a tokenizer and {_WEIGHTS}")
    files = [config, path / _SENTENCE_CONFIG, *tokenizer, *weight_files(folder)]
    return tuple(sorted((file.name, _file_digest(file)) for file in files if file.is_file()))


def _file_digest(path: Path) -> str:
    real = path.resolve()
    stat = real.stat()
    return _digest_once(real, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest_once(path: Path, size: int, mtime_ns: int) -> str:
    # Size and time are part of the key: a file that changed is read again.
    return sha256_of(path)
