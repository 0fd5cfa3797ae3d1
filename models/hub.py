"""Fetch a model from a hub into a folder of its own, at a fixed commit and with every file's digest checked.

    OWNER--NAME@COMMIT/     the files, arrowhead.json (source, commit, licence) and SHA256SUMS

A fetch goes on where an earlier one was interrupted. Weights in formats that can run code when read are not fetched.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from models.errors import ModelNotFound
from models.files import CARD_FILE, check_room, first_line, locked, sha256_of, write_json

SUMS_FILE: Final = "SHA256SUMS"
_HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_FETCHED: Final = (
    "*.json",
    "*.safetensors",
    "*.model",
    "*.jinja",
    "*.txt",
    "*.md",
    "LICENSE*",
    "NOTICE*",
    "USE_POLICY*",
)
_WEIGHTS: Final = "*.safetensors"
# Copies of the weights in other forms.
_NOT_FETCHED: Final = ("original/*", "onnx/*", "openvino/*", "consolidated*")
_SWITCHES: Final = ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_XET")
_COMMIT_CHARS: Final = 12
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class HubFile:
    """Describe a file: ``sha256`` of a large one, ``blob`` (git's SHA-1) of the others."""

    name: str
    size: int
    sha256: str | None
    blob: str | None


@dataclass(frozen=True, slots=True)
class HubModel:
    """Describe what a hub offers under an id at one commit; ``licence`` is "unknown" where it states none."""

    source: str
    commit: str
    licence: str
    gated: bool
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def folder_name(self) -> str:
        return f"{self.source.replace('/', '--')}@{self.commit[:_COMMIT_CHARS]}"


def look_up(source: str, revision: str | None, endpoint: str) -> HubModel:
    """Ask the hub what it has under an id; ``revision`` is a branch, tag or commit.

    Raises:
        ModelNotFound: there is no such model, no weights that may be loaded, or no answer.
    """
    if not _HUB_ID.fullmatch(source):
        raise ModelNotFound(f"{source} is no hub id (owner/name)")
    api = _library().HfApi(endpoint=endpoint)
    try:
        info = api.model_info(source, revision=revision, files_metadata=True, timeout=_TIMEOUT_S)
    except Exception as error:  # the library's own errors, those of its HTTP client and those of the system
        raise ModelNotFound(f"{source} ({revision or 'main'}) at {endpoint}: {_cause(error)}") from error
    files = tuple(_file(sibling) for sibling in info.siblings or () if _is_wanted(sibling.rfilename))
    if not any(fnmatch.fnmatch(file.name, _WEIGHTS) for file in files):
        raise ModelNotFound(f"{source} has no weights in safetensors; pickled weights are not fetched")
    data = info.card_data
    licence = (data.get("license_name") or data.get("license")) if data else None
    return HubModel(source, str(info.sha), str(licence or "unknown"), bool(info.gated), files)


def fetch(model: HubModel, into: Path, endpoint: str) -> Path:
    """Download the files that are missing, check all, and return the folder.

    Raises:
        ModelNotFound: a file could not be fetched or differs from its digest, or there is no room.
    """
    target = into / model.folder_name
    draft = into / f".{model.folder_name}.draft"
    try:
        draft.mkdir(parents=True, exist_ok=True)
        with locked(draft.with_suffix(".lock"), 0.0, f"fetching {model.folder_name}"):
            if target.is_dir():
                shutil.rmtree(draft, ignore_errors=True)
                return target
            present = sum(file.size for file in model.files if (draft / file.name).is_file())
            check_room(into, model.size - present, model.source)
            _download(model, draft, endpoint)
            sums = {file.name: _checked(draft / file.name, file) for file in model.files}
            shutil.rmtree(draft / ".cache", ignore_errors=True)
            _describe(model, draft, sums)
            draft.rename(target)
    except OSError as error:
        raise ModelNotFound(f"{model.source} could not be written to {into}: {error}") from error
    return target


def verify(folder: Path) -> int:
    """Compare a fetched folder, or a copy of it, with its SHA256SUMS, and return the number of files.

    Raises:
        ModelNotFound: a file is missing or differs, or there are no sums.
    """
    file = folder / SUMS_FILE
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ModelNotFound(f"{file} cannot be read: {error}") from error
    for line in lines:
        expected, _, name = line.partition("  ")
        path = folder / name
        if not path.is_file():
            raise ModelNotFound(f"{path} is missing")
        if sha256_of(path) != expected:
            raise ModelNotFound(f"{path} is damaged: its sha256 is not that of {SUMS_FILE}")
    if not lines:
        raise ModelNotFound(f"{file} names no files")
    return len(lines)


def fetched_folder(source: str, revision: str | None, into: Path) -> Path | None:
    """Return the folder to which an id was fetched, None where it was not.

    ``revision`` None takes the only one.

    Raises:
        ModelNotFound: several commits are there, and the revision does not name one of them.
    """
    if not _HUB_ID.fullmatch(source):
        return None
    begin = f"{source.replace('/', '--')}@"
    folders = sorted(path for path in into.glob(f"{begin}*") if path.is_dir())
    if revision is not None:
        folders = [path for path in folders if revision.startswith(path.name.removeprefix(begin))]
    if len(folders) > 1:
        commits = ", ".join(path.name.removeprefix(begin) for path in folders)
        raise ModelNotFound(f"{source} was fetched at several commits ({commits}): name one with model.revision")
    return folders[0] if folders else None


def _library() -> Any:
    """Import the library so that it asks no host but the hub that is named, and reports nothing.

    It reads its switches once, at import, so they are also set in the module: without the first it asks its own hub
    about the caller's environment, whatever the endpoint; the second is a transport with hosts of its own.
    """
    os.environ.update(dict.fromkeys(_SWITCHES, "1"))
    import huggingface_hub
    from huggingface_hub import constants

    for switch in _SWITCHES:
        setattr(constants, switch, True)
    return huggingface_hub


def _is_wanted(name: str) -> bool:
    path = Path(name)
    safe = not path.is_absolute() and ".." not in path.parts
    fetched = any(fnmatch.fnmatch(path.name, pattern) for pattern in _FETCHED)
    return safe and fetched and not any(fnmatch.fnmatch(name, pattern) for pattern in _NOT_FETCHED)


def _file(sibling: Any) -> HubFile:
    large = sibling.lfs
    sha256 = None if large is None else str(large["sha256"] if isinstance(large, dict) else large.sha256)
    return HubFile(sibling.rfilename, int(sibling.size or 0), sha256, sibling.blob_id)


def _download(model: HubModel, draft: Path, endpoint: str) -> None:
    library = _library()
    try:
        for file in model.files:
            library.hf_hub_download(
                model.source,
                file.name,
                revision=model.commit,
                local_dir=draft,
                endpoint=endpoint,
                etag_timeout=_TIMEOUT_S,
            )
    except Exception as error:  # as above
        host = urlsplit(endpoint).hostname
        raise ModelNotFound(
            f"{model.source} could not be fetched whole from {host}: {_cause(error)}; the next try goes on from here"
        ) from error


def _checked(path: Path, file: HubFile) -> str:
    """Return a file's SHA-256.

    Raises:
        ModelNotFound: it is not the file that the hub announced; it is removed, so that the next try fetches it anew.
    """
    digest = sha256_of(path) if path.is_file() else ""
    if file.sha256 is not None:
        fits = digest == file.sha256
    else:
        fits = file.blob is None or (bool(digest) and _git_blob(path) == file.blob)
    if not digest or not fits:
        path.unlink(missing_ok=True)
        raise ModelNotFound(f"{file.name} is not the file that the hub announced, and was removed; fetch again")
    return digest


def _git_blob(path: Path) -> str:
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    digest.update(path.read_bytes())
    return digest.hexdigest()


def _describe(model: HubModel, folder: Path, sums: dict[str, str]) -> None:
    card = {"source": model.source, "revision": model.commit, "licence": model.licence}
    write_json(folder / CARD_FILE, card)
    lines = [f"{digest}  {name}\n" for name, digest in sorted(sums.items())]
    (folder / SUMS_FILE).write_text("".join(lines), encoding="utf-8")


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
