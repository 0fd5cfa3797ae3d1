"""Judge with a sequence classifier of Hugging Face's form: MiniCheck, a DeBERTa NLI, or another of their kind.

sentence-transformers loads and runs it. What its labels mean is read from its config: names that begin with entail or
support are supports, those that begin with contradict or refut are contradicts. A model with one number, or with two
labels that say whether evidence supports a claim (MiniCheck), gives supports only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open

from models.encoders.base import EncoderOptions
from models.encoders.model_files import ModelFolder, weight_files
from models.encoders.resolve import max_tokens
from models.encoders.transformers_encoder.loading import Placement, place
from models.errors import ENCODER_UNAVAILABLE, ENCODER_UNUSABLE, ModelError, ModelNotFound
from models.files import first_line, read_json
from models.torch_runtime.openmp import run_in_new_thread
from models.verifiers.base import Judgement, OperatingPoints, Pair

# Of a softmax, the model's own decision; ``verifier.bar`` sets another one.
DEFAULT_BAR: Final = 0.5
_SUPPORTS: Final = ("entail", "support")
_CONTRADICTS: Final = ("contradict", "refut")
_CLASSIFIER: Final = "ForSequenceClassification"
_MAX_TOKENS: Final = 512
_CPU_BATCH: Final = 32
_CUDA_BATCH: Final = 128


@dataclass(frozen=True, slots=True)
class LabelPlaces:
    """Hold which of a model's outputs is supports, and which contradicts, None where none is."""

    supports: int
    contradicts: int | None = None


def label_places(labels: Mapping[int, str]) -> LabelPlaces:
    """Return what the outputs of a model mean, by the names in its config.

    Of two labels whose names say nothing the second is supports, as in MiniCheck.

    Raises:
        ModelNotFound: the names leave open which output is supports.
    """
    if len(labels) == 1:
        return LabelPlaces(next(iter(labels)))
    supports = [place for place, name in labels.items() if name.lower().startswith(_SUPPORTS)]
    contradicts = [place for place, name in labels.items() if name.lower().startswith(_CONTRADICTS)]
    if len(labels) == 2 and not supports and not contradicts:
        return LabelPlaces(1)
    if len(supports) != 1 or len(contradicts) > 1:
        names = ", ".join(labels.values())
        raise ModelNotFound(
            f"its labels are {names}: id2label in config.json must name one entailment, and one contradiction where "
            "there is one",
            ENCODER_UNUSABLE,
        )
    return LabelPlaces(supports[0], contradicts[0] if contradicts else None)


class HubVerifier:
    """Judge pairs with a classifier of a folder, blocking on construction until its weights are in memory.

    Calls run one after another. ``bar`` is the operating point of every task.

    Raises:
        ModelNotFound: files are missing or damaged; it is no sequence classifier, or its labels or weights do not tell
            what it means.
        EngineUnavailable, UnsupportedParam: there is no such device.
    """

    def __init__(self, folder: ModelFolder, name: str, options: EncoderOptions, bar: float = DEFAULT_BAR) -> None:
        self._name = name
        self._bar = bar
        self._placement = place(options)
        _check_architecture(folder)
        self._model = run_in_new_thread(lambda: _loaded(folder, self._placement))
        _check_head(self._model.model, folder)
        try:
            self._places = label_places(self._model.config.id2label)
        except ModelNotFound as error:
            raise ModelNotFound(f"{name}: {error.message}", ENCODER_UNUSABLE) from None

    @property
    def name(self) -> str:
        return self._name

    @property
    def points(self) -> OperatingPoints:
        return OperatingPoints(quote=self._bar, answer=self._bar, verdict=self._bar, label=self._bar, screen=self._bar)

    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        if not pairs:
            return []
        # An NLI model reads the premise first.
        texts = [(pair.evidence, pair.query) for pair in pairs]
        try:
            logits = run_in_new_thread(lambda: self._logits(texts))
        except RuntimeError as error:
            raise ModelError(f"{self._name} failed: {type(error).__name__}", ENCODER_UNAVAILABLE) from error
        if not np.isfinite(logits).all():
            raise ModelError(
                f"{self._name} gave numbers that are not finite in {self._placement.dtype}", ENCODER_UNAVAILABLE
            )
        return [self._judgement(row) for row in _probabilities(logits)]

    def _logits(self, texts: list[tuple[str, str]]) -> NDArray[np.float64]:
        found = self._model.predict(
            texts,
            batch_size=_CUDA_BATCH if self._placement.device.type == "cuda" else _CPU_BATCH,
            show_progress_bar=False,
            activation_fn=torch.nn.Identity(),
            convert_to_tensor=True,
        )
        numbers: NDArray[np.float64] = found.float().cpu().numpy().astype(np.float64).reshape(len(texts), -1)
        return numbers

    def _judgement(self, row: NDArray[np.float64]) -> Judgement:
        supports = float(row[self._places.supports])
        place = self._places.contradicts
        contradicts = 0.0 if place is None else min(float(row[place]), 1.0 - supports)
        return Judgement(min(1.0, supports + contradicts), supports, contradicts)


def _loaded(folder: ModelFolder, placement: Placement) -> Any:
    from sentence_transformers import CrossEncoder
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # it would interrupt a command's own output
    try:
        return CrossEncoder(
            str(folder.path),
            device=str(placement.device),
            local_files_only=True,
            trust_remote_code=False,
            max_length=min(max_tokens(folder.path), _MAX_TOKENS),
            model_kwargs={"use_safetensors": True, "dtype": placement.dtype},
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        cause = f"{type(error).__name__}: {first_line(error)}"
        raise ModelNotFound(f"{folder.path} cannot be loaded: {cause}", ENCODER_UNUSABLE) from error


def _check_architecture(folder: ModelFolder) -> None:
    weight_files(folder)
    kinds = read_json(folder.path / "config.json").get("architectures") or ["none named"]
    if not any(str(kind).endswith(_CLASSIFIER) for kind in kinds):
        raise ModelNotFound(
            f"{folder.path} has the architecture {', '.join(map(str, kinds))}: a verifier classifies a whole pair "
            f"(…{_CLASSIFIER})",
            ENCODER_UNUSABLE,
        )


def _check_head(model: Any, folder: ModelFolder) -> None:
    """Reject a model whose classifier is not in its files, which transformers would fill with random numbers."""
    stored: set[str] = set()
    for file in weight_files(folder):
        with safe_open(file, "np") as opened:
            stored.update(opened.keys())
    body = f"{model.base_model_prefix}."
    missing = sorted({name for name, _ in model.named_parameters() if not name.startswith(body)} - stored)
    if missing:
        raise ModelNotFound(
            f"{folder.path}: weights of its classifier are not in its files: {', '.join(missing)}", ENCODER_UNUSABLE
        )


def _probabilities(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    if logits.shape[1] == 1:
        # Of the sigmoid, as of a softmax with 0 for the other label.
        logits = np.concatenate([logits, np.zeros_like(logits)], axis=1)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return shares
