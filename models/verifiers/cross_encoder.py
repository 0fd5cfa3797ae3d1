"""Judge pairs with the cross-encoder that ships, or with one of its form; imports torch.

Its folder holds the layers as int8 with a scale for each row. The table of words and the tokenizer are those of the
encoder that ships, which it was trained on and leaves as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.encoders.base import EncoderOptions, Floats
from models.encoders.model_files import ModelFolder
from models.encoders.resolve import resolve_encoder
from models.encoders.specs import DEFAULT_ENCODER
from models.encoders.texts import TruncatingTokenizer, load_tokenizer
from models.encoders.transformers_encoder.encoder import BatchRunner, Inputs
from models.encoders.transformers_encoder.loading import FifoLock, Placement, load_plain_bert, place
from models.errors import ENCODER_UNAVAILABLE, ENCODER_UNUSABLE, EngineUnavailable, ModelError, ModelNotFound
from models.files import parse_json, sha256_of
from models.torch_runtime.layers import pack_linears
from models.torch_runtime.openmp import run_in_new_thread
from models.verifiers.base import Judgement, OperatingPoints, Pair
from models.verifiers.network import RELEVANCE, VERDICT, VERDICTS, VerifierNetwork

VERIFIER_DIR: Final = Path(__file__).parents[1] / "embedded" / "arrowhead-verifier"
CARD: Final = "card.json"
WEIGHTS: Final = "model.safetensors"
MAX_TOKENS: Final = 128
WORDS: Final = "bert.embeddings.word_embeddings.weight"
# Behind the name of a matrix that is stored as int8, the name of its rows' scales.
SCALE: Final = ".scale"
_LEVELS: Final = 127


@dataclass(frozen=True, slots=True)
class Calibration:
    """Hold what makes probabilities of logits.

    ``relevance`` is the temperature of that head, ``verdict`` that of supports against contradicts. ``told`` is a
    weight for the sum of two logits, of relevance and of either verdict against neither, and a number to add: both
    heads know whether the evidence tells.
    """

    relevance: float
    verdict: float
    told: tuple[float, float]


class CrossEncoderVerifier:
    """Judge pairs in batches of like length; safe from many threads, blocking on construction until it is in memory.

    ``base``: where the table of words and the tokenizer are, by default the encoder that ships.

    Raises:
        ModelNotFound: files are missing, damaged, or do not fit one another.
        UnsupportedParam: there is no such device.
        EngineUnavailable: CUDA is requested and there is none.
    """

    def __init__(self, folder: Path, options: EncoderOptions, base: ModelFolder | None = None) -> None:
        card = read_card(folder)
        self._name, self._points = str(card["name"]), points_of(card)
        self._calibration = calibration_of(card)
        placement = place(options)
        base = base or base_folder()
        network = run_in_new_thread(partial(_served_network, folder, base, placement))
        self._cutter = TruncatingTokenizer(load_tokenizer(base.path), MAX_TOKENS)
        self._runner = BatchRunner(_Forward(network), 1 + VERDICTS, placement, FifoLock())

    @property
    def name(self) -> str:
        return self._name

    @property
    def points(self) -> OperatingPoints:
        return self._points

    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        return probabilities(self.logits(pairs), self._calibration)

    def logits(self, pairs: Sequence[Pair]) -> Floats:
        """Return what calibration is fitted to: of relevance and of the three verdicts, float32 [n, 4]."""
        texts = iter([(pair.query, pair.evidence) for pair in pairs])
        try:
            return self._runner.run(self._cutter, MAX_TOKENS, texts, len(pairs), None)
        except (EngineUnavailable, ModelNotFound) as error:
            raise ModelError(f"{self._name} failed: {error}", ENCODER_UNAVAILABLE) from error


def probabilities(logits: Floats, calibration: Calibration) -> list[Judgement]:
    """Return the judgements of logits, float32 [n, 4]: of relevance, and of supports, contradicts and neither."""
    relevance, supports, contradicts, neither = logits.T.astype(np.float64)
    weight, constant = calibration.told
    told = _sigmoid(weight * (relevance + np.logaddexp(supports, contradicts) - neither) + constant)
    yes = _sigmoid((supports - contradicts) / calibration.verdict)
    rows = zip(_sigmoid(relevance / calibration.relevance), told * yes, told * (1 - yes), strict=True)
    return [Judgement(*map(float, row)) for row in rows]


def _sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.exp(-np.logaddexp(0, -logits))
    return found


def load_verifier(folder: Path = VERIFIER_DIR, options: EncoderOptions | None = None) -> CrossEncoderVerifier:
    """Load the verifier of a folder, by default the one that ships, on the card where there is one.

    Raises as ``CrossEncoderVerifier`` does.
    """
    return CrossEncoderVerifier(folder, options or EncoderOptions())


def read_card(folder: Path) -> dict[str, Any]:
    """Return the card of a verifier's folder.

    Raises:
        ModelNotFound: there is none, or it lacks what is computed with.
    """
    try:
        card: dict[str, Any] = parse_json((folder / CARD).read_text(encoding="utf-8"))
        points_of(card)
        calibration = calibration_of(card)
        if min(calibration.relevance, calibration.verdict) <= 0 or not card["name"]:
            raise ValueError("a temperature is not above 0, or it has no name")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelNotFound(f"no usable verifier in {folder}: {type(error).__name__}: {error}") from error
    return card


def calibration_of(card: dict[str, Any]) -> Calibration:
    scales = card["temperatures"]
    weight, constant = map(float, card["told"])
    return Calibration(float(scales[RELEVANCE]), float(scales[VERDICT]), (weight, constant))


def points_of(card: dict[str, Any]) -> OperatingPoints:
    return OperatingPoints(**{name: float(value["bar"]) for name, value in card["points"].items()})


def base_folder() -> ModelFolder:
    """Return the folder of the encoder that ships, whose table of words and tokenizer the verifier has."""
    return resolve_encoder(DEFAULT_ENCODER, EncoderOptions()).query


def base_network(base: ModelFolder) -> VerifierNetwork:
    """Return a network with the base's weights and untrained heads, float32.

    Raises:
        ModelNotFound: its files are missing; it is no BERT of the original form.
    """
    bert = load_plain_bert(base, torch.float32)
    if bert is None:
        raise ModelNotFound(f"{base.path} is no BERT of the original form", ENCODER_UNUSABLE)
    return VerifierNetwork(bert)


def quantised(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights as they are stored: the layers' matrices as int8 with a scale for each row, others as float16."""
    stored: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if tensor.ndim != 2 or "encoder.layer" not in name:
            stored[name] = tensor.half().contiguous()
            continue
        scale = tensor.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / _LEVELS
        stored[name] = (tensor / scale).round().clamp(-_LEVELS, _LEVELS).to(torch.int8).contiguous()
        stored[name + SCALE] = scale.float().contiguous()
    return stored


def _served_network(folder: Path, base: ModelFolder, placement: Placement) -> VerifierNetwork:
    network = read_network(folder, base).to(placement.device)
    # The heads are small, and their sums are what the probabilities are made of.
    network.bert.to(placement.dtype)
    network.eval().requires_grad_(False)
    pack_linears(network.bert)
    return network


def read_network(folder: Path, base: ModelFolder) -> VerifierNetwork:
    """Return the network of a verifier's folder, float32.

    Raises:
        ModelNotFound: files are missing, damaged, or do not fit one another.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    network = base_network(base)
    wanted = {name: one for name, one in network.named_parameters() if name != WORDS}
    try:
        stored = load_file(folder / WEIGHTS)
        if sha256_of(folder / WEIGHTS) != read_card(folder)["weights_sha256"]:
            raise ValueError(f"{WEIGHTS} is not the one that {CARD} describes")
        for name, parameter in wanted.items():
            tensor = stored[name].float()
            tensor = tensor * stored[name + SCALE] if name + SCALE in stored else tensor
            with torch.no_grad():
                parameter.copy_(tensor)
    except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelNotFound(f"no usable verifier in {folder}: {type(error).__name__}: {error}") from error
    return network


class _Forward:
    def __init__(self, network: VerifierNetwork) -> None:
        self._network = network

    def __call__(self, inputs: Inputs) -> Tensor:
        logits = self._network(inputs.ids, inputs.segments, inputs.mask)
        return torch.cat([logits.relevance[:, None], logits.verdict], dim=1)
