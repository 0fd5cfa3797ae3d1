"""Resolve a name, a hub id, a directory or a spec to files on this machine, and read a spec from those files.

A sentence-transformers folder specifies how it computes its vectors in modules.json (the steps), the pooling step's
config.json, sentence_bert_config.json (length) and config_sentence_transformers.json (prompts, similarity); the names
are those that sentence-transformers 2 to 6 write. A folder that leaves it open is rejected. Loads no weights and knows
no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from models.encoders.base import EncoderOptions, Metric, Pooling
from models.encoders.model_files import ModelFolder, locate
from models.encoders.specs import (
    DEFAULT_ENCODER,
    HASHING,
    KNOWN_CROSS_ENCODERS,
    KNOWN_ENCODERS,
    OVERLAP,
    CrossEncoderSpec,
    EncoderSpec,
)
from models.errors import ENCODER_UNUSABLE, ModelNotFound, UnsupportedParam
from models.files import parse_json, read_json

MODULES: Final = "modules.json"
_POOLINGS: Final[dict[str, Pooling]] = {"cls": "cls", "mean": "mean"}
# Older files have one switch per pooling.
_SWITCHES: Final = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_PASSAGE_PROMPTS: Final = ("document", "passage", "corpus")
# Their position table begins after the padding position.
_OFFSET_POSITIONS: Final = ("roberta", "xlm-roberta", "camembert", "mpnet")
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
        ModelNotFound: the files are not on this machine; the files do not specify how vectors are computed, or
            contradict the known spec.
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
        known = KNOWN_CROSS_ENCODERS.get(spec) or by_source.get(spec.lower())
        name = Path(spec).expanduser().resolve().name if Path(spec).expanduser().is_dir() else spec
        _reject_unknown_name(spec, (*KNOWN_CROSS_ENCODERS, OVERLAP))
        spec = known or CrossEncoderSpec(name=name, source=spec)
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
        raise ModelNotFound(
            f"{folder.root} says that it pools by {modules.pooling}, but {spec.name} pools by {spec.pooling}: "
            "these are not that model's files",
            ENCODER_UNUSABLE,
        )


@dataclass(frozen=True, slots=True)
class Modules:
    """Describe the supported steps of a folder: one transformer, one pooling, optionally a normalisation."""

    subfolder: str
    pooling: Pooling
    include_prompt: bool
    normalise: bool


def spec_from_folder(source: str, folder: ModelFolder) -> EncoderSpec:
    """Build the spec of an encoder from its own files.

    Raises:
        ModelNotFound: the folder does not specify how its vectors are computed, or in a way not supported here.
    """
    modules = read_modules(folder.root)
    if modules is None:
        raise ModelNotFound(
            f"{source} is a plain transformer: its files do not tell whether a vector is the [CLS] token or the mean "
            f"of all. Add the {MODULES} and 1_Pooling/config.json that it was published with, or describe it as an "
            "EncoderSpec with its pooling",
            ENCODER_UNUSABLE,
        )
    transformer = folder.root / modules.subfolder
    settings = _optional(folder.root / "config_sentence_transformers.json")
    prefixes = _prefixes(settings)
    if any(prefixes) and not modules.include_prompt:
        raise ModelNotFound(f"{source} leaves its prompts out of the pooling, which is not supported", ENCODER_UNUSABLE)
    metric, normalise = _comparison(source, settings, modules.normalise)
    length = max_tokens(transformer)
    return EncoderSpec(
        name=source if source.count("/") == 1 and not Path(source).exists() else folder.root.resolve().name,
        query=source,
        passage=source,
        pooling=modules.pooling,
        normalise=normalise,
        metric=metric,
        max_query=length,
        max_passage=length,
        prefixes=prefixes,
        lower=bool(_optional(transformer / "sentence_bert_config.json").get("do_lower_case")),
        subfolder=modules.subfolder,
    )


def read_modules(root: Path) -> Modules | None:
    """Read the steps of a folder, or return None if it has no modules.json.

    Raises:
        ModelNotFound: a step is not supported.
    """
    path = root / MODULES
    if not path.is_file():
        return None
    steps = _steps(path)
    kinds = [kind for kind, _ in steps]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ModelNotFound(
            f"{path} has the steps {', '.join(kinds)}: only Transformer, Pooling and Normalize are supported",
            ENCODER_UNUSABLE,
        )
    pooling = read_json(root / steps[1][1] / "config.json")
    return Modules(
        subfolder=steps[0][1],
        pooling=_pooling(root / steps[1][1], pooling),
        include_prompt=bool(pooling.get("include_prompt", True)),
        normalise=len(steps) == 3,
    )


def max_tokens(transformer: Path) -> int:
    """Return the token limit of a folder, special tokens included, at most the size of the position table.

    Raises:
        ModelNotFound: no file states a limit.
    """
    config = read_json(transformer / "config.json")
    limits = [positions(config)]
    max_seq_length = _optional(transformer / "sentence_bert_config.json").get("max_seq_length")
    limits.append(max_seq_length or _optional(transformer / "tokenizer_config.json").get("model_max_length"))
    known = [int(limit) for limit in limits if isinstance(limit, (int, float)) and limit > 0]
    if not known:
        raise ModelNotFound(f"{transformer} does not tell how many tokens its model takes", ENCODER_UNUSABLE)
    return min(known)


def positions(config: dict[str, Any]) -> int | None:
    """Return how many tokens a model of this config.json can number, or None if it does not say."""
    size = config.get("max_position_embeddings")
    if not isinstance(size, int):
        return None
    offset = int(config.get("pad_token_id") or 0) + 1 if config.get("model_type") in _OFFSET_POSITIONS else 0
    return size - offset


def check_tables(config: dict[str, Any], vocabulary: int, max_tokens: int, name: str) -> None:
    """Check that every token and every position has a row in the tables of a model with this config.json.

    ``vocabulary`` is the tokenizer's number of tokens.

    Raises:
        ModelNotFound: one has none.
    """
    limit = positions(config)
    if limit is not None and max_tokens > limit:
        raise ModelNotFound(
            f"{name} is to read {max_tokens} tokens, but its model has places for {limit}", ENCODER_UNUSABLE
        )
    if vocabulary > config["vocab_size"]:
        raise ModelNotFound(
            f"{name}: the tokenizer has {vocabulary} tokens, the model only {config['vocab_size']}", ENCODER_UNUSABLE
        )


def _steps(path: Path) -> list[tuple[str, str]]:
    """Return class name and folder of each step, in order.

    The class name is without its module, which moved between versions.
    """
    try:
        entries = parse_json(path.read_text(encoding="utf-8"))
        steps = [(str(e["type"]).rsplit(".", 1)[-1], str(e["path"])) for e in sorted(entries, key=lambda e: e["idx"])]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelNotFound(
            f"{path} is no list of modules: {type(error).__name__}: {error}", ENCODER_UNUSABLE
        ) from error
    for _, folder in steps:
        if PurePosixPath(folder).is_absolute() or ".." in PurePosixPath(folder).parts:
            raise ModelNotFound(f"{path} points outside its folder: {folder!r}", ENCODER_UNUSABLE)
    return steps


def _pooling(folder: Path, config: dict[str, Any]) -> Pooling:
    setting = config.get("pooling_mode")
    if setting is None:
        setting = [mode for switch, mode in _SWITCHES.items() if config.get(switch)]
    modes = [setting] if isinstance(setting, str) else list(setting)
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise ModelNotFound(
            f"{folder} pools by {' and '.join(map(str, modes)) or 'nothing'}: only cls or mean can be", ENCODER_UNUSABLE
        )
    return _POOLINGS[modes[0]]


def _prefixes(settings: dict[str, Any]) -> tuple[str, str]:
    prompts = settings.get("prompts") or {}
    passage = next((prompts[name] for name in _PASSAGE_PROMPTS if prompts.get(name)), "")
    return str(prompts.get("query") or ""), str(passage)


def _comparison(source: str, settings: dict[str, Any], normalised: bool) -> tuple[Metric, bool]:
    """Return the metric, and whether vectors are normalised.

    Cosine is the inner product of vectors of length 1; it is also the default of a folder that names no similarity.
    """
    match settings.get("similarity_fn_name") or "cosine":
        case "cosine":
            return "inner_product", True
        case "dot":
            return "inner_product", normalised
        case "euclidean":
            return "l2", normalised
        case other:
            raise ModelNotFound(f"{source} compares its vectors by {other}, which no index here does", ENCODER_UNUSABLE)


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}
