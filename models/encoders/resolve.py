"""Resolve a name, a hub id, a directory or a spec to files on this machine.

Loads nothing and knows no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from models.encoders.base import EncoderOptions
from models.encoders.model_files import ModelFolder, locate
from models.encoders.sentence_config import read_modules, spec_from_folder
from models.encoders.specs import (
    DEFAULT_ENCODER,
    HASHING,
    KNOWN_CROSS_ENCODERS,
    KNOWN_ENCODERS,
    OVERLAP,
    CrossEncoderSpec,
    EncoderSpec,
)
from models.errors import EncoderUnusable, ModelNotFound, UnsupportedParam

_NAMES: Final = (DEFAULT_ENCODER, *(name for name in KNOWN_ENCODERS if name != DEFAULT_ENCODER), HASHING)


@dataclass(frozen=True, slots=True)
class ResolvedEncoder:
    """Hold an encoder's spec and the folders of its towers.

    ``query`` and ``passage`` are the same folder if one tower encodes both.
    """

    spec: EncoderSpec
    query: ModelFolder
    passage: ModelFolder

    @property
    def folders(self) -> Iterator[ModelFolder]:
        yield self.query
        if self.passage != self.query:
            yield self.passage


@dataclass(frozen=True, slots=True)
class ResolvedCrossEncoder:
    """Hold a cross-encoder's spec and folder."""

    spec: CrossEncoderSpec
    folder: ModelFolder


def resolve_encoder(spec_or_id: EncoderSpec | str, options: EncoderOptions) -> ResolvedEncoder:
    """Resolve a spec, a known name, a hub id or a directory to an encoder's files.

    A directory is one of sentence-transformers, or the parent of MedCPT's two folders.

    Raises:
        ModelNotFound: the files are not on this machine.
        EncoderUnusable: the files do not specify how vectors are computed, or contradict the known spec.
        UnsupportedParam: the revision does not fit the number of towers.
    """
    spec = spec_or_id if isinstance(spec_or_id, EncoderSpec) else _known(spec_or_id)
    if spec is None:
        assert isinstance(spec_or_id, str)
        folder = _locate_unknown(spec_or_id, options)
        spec = spec_from_folder(spec_or_id, folder)
        folder = replace(folder, subfolder=spec.subfolder)
        return ResolvedEncoder(spec, folder, folder)
    revisions = _revisions(options.revision, spec)
    # An explicit revision is one of the hub, not of a package.
    package = spec.package if options.revision is None else ""
    folders = [
        replace(_locate(source, revision, options, package), subfolder=spec.subfolder)
        for source, revision in zip(spec.towers, revisions, strict=True)
    ]
    for folder in folders:
        _check_against_own_files(spec, folder)
    return ResolvedEncoder(spec, folders[0], folders[-1])


def resolve_cross_encoder(spec_or_id: CrossEncoderSpec | str, options: EncoderOptions) -> ResolvedCrossEncoder:
    """Resolve a spec, a known name, a hub id or a directory to a cross-encoder's files.

    Raises:
        ModelNotFound: the files are not on this machine.
    """
    spec = spec_or_id
    if isinstance(spec, str):
        by_source = {known.source.lower(): known for known in KNOWN_CROSS_ENCODERS.values()}
        found = KNOWN_CROSS_ENCODERS.get(spec) or by_source.get(spec.lower())
        name = Path(spec).expanduser().resolve().name if Path(spec).expanduser().is_dir() else spec
        _reject_unknown_name(spec, (*KNOWN_CROSS_ENCODERS, OVERLAP))
        spec = found or CrossEncoderSpec(name=name, source=spec)
    return ResolvedCrossEncoder(spec, _locate(spec.source, options.revision or spec.revision, options))


def _known(name: str) -> EncoderSpec | None:
    if name in KNOWN_ENCODERS:
        return KNOWN_ENCODERS[name]
    for spec in KNOWN_ENCODERS.values():
        if name.lower() in {tower.lower() for tower in spec.towers}:
            return spec
    return _known_by_folder_names(Path(name).expanduser())


def _known_by_folder_names(directory: Path) -> EncoderSpec | None:
    """Recognise a known encoder by its folder names.

    Manual copies keep the hub's last names: the model's own folder, or the parent of the folders of two towers.
    """
    for spec in KNOWN_ENCODERS.values():
        names = [tower.rsplit("/", 1)[1] for tower in spec.towers]
        if len(names) == 1 and directory.is_dir() and directory.name == names[0]:
            folders = [directory]
        else:
            folders = [directory / name for name in names]
        if all((folder / "config.json").is_file() for folder in folders):
            return replace(spec, query=str(folders[0]), passage=str(folders[-1]), package="")
    return None


def _locate_unknown(source: str, options: EncoderOptions) -> ModelFolder:
    _reject_unknown_name(source, _NAMES)
    return _locate(source, options.revision, options)


def _reject_unknown_name(source: str, names: tuple[str, ...]) -> None:
    if "/" not in source and source not in names and not Path(source).expanduser().is_dir():
        raise ModelNotFound(f"{source!r} is no encoder: name a directory, a hub id, or one of {', '.join(names)}")


def _locate(source: str, revision: str | None, options: EncoderOptions, package: str = "") -> ModelFolder:
    return locate(source, revision=revision, allow_download=options.allow_download, package=package)


def _revisions(revision: str | None, spec: EncoderSpec) -> list[str | None]:
    if revision is None:
        return list(spec.revisions or [None] * len(spec.towers))
    parts = [part.strip() for part in revision.split(",")]
    if len(parts) != len(spec.towers) or not all(parts):
        raise UnsupportedParam(
            f"{spec.name} is made of {len(spec.towers)} models ({', '.join(spec.towers)}) and needs as many revisions, "
            f"with commas between; got {revision!r}",
            param="revision",
        )
    return list(parts)


def _check_against_own_files(spec: EncoderSpec, folder: ModelFolder) -> None:
    modules = read_modules(folder.root)
    if modules is not None and modules.pooling != spec.pooling:
        raise EncoderUnusable(
            f"{folder.root} says that it pools by {modules.pooling}, but {spec.name} pools by {spec.pooling}: "
            "these are not that model's files"
        )
