"""Load a model from a folder's safetensors onto a device, and reject an incomplete one.

Owns the device and the dtype in which torch computes. Importing transformers' model classes takes three times as long
as importing torch: most of a search from a terminal. So the common case, a BERT of the original form with its
tokenizer, is read and computed here with torch alone; every other folder, and one that is not whole, is left to
transformers. The same operations in the same order as transformers with ``sdpa`` give the same bits.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.encoders.base import EncoderOptions
from models.encoders.model_files import ModelFolder, weight_files
from models.encoders.resolve import check_tables
from models.errors import ENCODER_UNUSABLE, EngineUnavailable, ModelNotFound
from models.files import first_line, read_json
from models.torch_runtime.devices import DTYPES, cpu_has_bfloat16, torch_device
from models.torch_runtime.layers import pack_linears
from models.torch_runtime.openmp import run_in_new_thread

_CPU_BATCH_TOKENS: Final = 2048
# A question is computed as fast by one thread, and beside other work five times as fast: none waits for a busy core.
_ONE_THREAD_TOKENS: Final = 64
_CUDA_BATCH_TOKENS: Final = 65_536
# The layer over [CLS] that many checkpoints lack and no vector here uses.
_UNUSED: Final = "pooler."
SEGMENTS: Final = "token_type_ids"
# Values of config.json other than these change what is computed; a missing key has the value.
_ORIGINAL: Final[dict[str, object]] = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
_SIZES: Final = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "vocab_size")


class FifoLock:
    """Exclude other threads, and keep a thread that releases and re-acquires from overtaking one that waits.

    Bulk encoding acquires the lock once per batch; with a plain lock it would nearly always win and starve a query.
    """

    def __init__(self) -> None:
        self._entry_lock = threading.Lock()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        # A waiting thread holds the outer lock, so a thread that releases the inner lock queues after it.
        with self._entry_lock:
            self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


@dataclass(frozen=True, slots=True)
class Placement:
    """Hold the device, dtype, batch size and thread count of an encoder."""

    device: torch.device
    dtype: torch.dtype
    batch_tokens: int
    threads: int | None

    @contextmanager
    def computing(self, num_tokens: int) -> Iterator[None]:
        """Set the thread count for a forward pass and restore it after, since the process computes elsewhere too."""
        threads = self.threads or (1 if num_tokens <= _ONE_THREAD_TOKENS else None)
        if threads is None or self.device.type != "cpu":
            yield
            return
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def place(options: EncoderOptions) -> Placement:
    """Select the placement for the options.

    Raises:
        UnsupportedParam: there is no such device.
        EngineUnavailable: CUDA is requested and there is none.
    """
    device = torch_device(options.device)
    on_cuda = device.type == "cuda"
    return Placement(
        device,
        _auto_dtype(device) if options.dtype == "auto" else DTYPES[options.dtype],
        options.batch_tokens or (_CUDA_BATCH_TOKENS if on_cuda else _CPU_BATCH_TOKENS),
        options.threads,
    )


def _auto_dtype(device: torch.device) -> torch.dtype:
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.bfloat16 if device.type == "cpu" and cpu_has_bfloat16() else torch.float32


def load_transformer(folder: ModelFolder, placement: Placement) -> Any:
    """Load the bare transformer, which returns token vectors.

    Raises as ``load_classifier`` does.
    """
    return run_in_new_thread(partial(_load, _read_transformer, folder, placement))


def load_classifier(folder: ModelFolder, placement: Placement) -> Any:
    """Load the transformer with its classification head.

    Raises:
        ModelNotFound: files are missing or damaged; weights that the model needs are not in the files.
        EngineUnavailable: this machine cannot run it.
    """
    return run_in_new_thread(partial(_load, _read_classifier, folder, placement))


def check_lengths(model: Any, tokenizer: Any, max_tokens: int, name: str) -> None:
    """Check that every token and every position has a row in the model's tables.

    Raises:
        ModelNotFound: one has none.
    """
    config = model.config.to_dict() | {"vocab_size": model.config.vocab_size}
    check_tables(config, len(tokenizer), max_tokens, name)


def takes_segments(model: Any, tokenizer: Any) -> bool:
    """Return whether the tokenizer produces segment ids and the model accepts them."""
    return SEGMENTS in tokenizer.model_input_names and SEGMENTS in inspect.signature(model.forward).parameters


def _read_transformer(folder: ModelFolder, placement: Placement) -> Any:
    plain = load_plain_bert(folder, placement.dtype)
    if plain is not None:
        return plain
    from transformers import AutoModel

    return _read(AutoModel, folder, placement)


def _read_classifier(folder: ModelFolder, placement: Placement) -> Any:
    from transformers import AutoModelForSequenceClassification

    return _read(AutoModelForSequenceClassification, folder, placement)


def _read(auto: Any, folder: ModelFolder, placement: Placement) -> Any:
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # it would interrupt a command's own output
    model, report = auto.from_pretrained(
        folder.path,
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
        dtype=placement.dtype,
        attn_implementation="sdpa",
        output_loading_info=True,
    )
    _check_report(report, folder)
    return model


def _load(read: Callable[[ModelFolder, Placement], Any], folder: ModelFolder, placement: Placement) -> Any:
    weight_files(folder)
    try:
        model = read(folder, placement)
        model = model.to(placement.device).eval().requires_grad_(False)
        pack_linears(model)
        return model
    except torch.OutOfMemoryError as error:
        raise EngineUnavailable(f"{folder.path} does not fit into the memory of {placement.device}") from error
    except OSError as error:
        raise ModelNotFound(f"cannot load {folder.path}: {first_line(error)}") from error
    except (ValueError, KeyError, ImportError, RuntimeError) as error:
        raise EngineUnavailable(f"transformers cannot run {folder.path}: {first_line(error)}") from error
    except Exception as error:
        # safetensors' own error has no base class but this one.
        if type(error).__name__ != "SafetensorError":
            raise
        raise ModelNotFound(f"the weights of {folder.path} are damaged: {first_line(error)}") from error


def _check_report(report: Any, folder: ModelFolder) -> None:
    """Reject a model with missing or mismatched weights.

    transformers fills missing weights with random numbers and only warns.
    """
    missing = sorted(key for key in report["missing_keys"] if _UNUSED not in key)
    wrong = sorted(map(str, report["mismatched_keys"])) + sorted(map(str, report["error_msgs"]))
    if missing or wrong:
        names = ", ".join((missing + wrong)[:4])
        raise ModelNotFound(
            f"{folder.path}: {len(missing) + len(wrong)} weights that the model needs are not in its files: {names}",
            ENCODER_UNUSABLE,
        )


class TokenVectors(NamedTuple):
    """Hold the output of the last layer, [rows, width, hidden]."""

    last_hidden_state: Tensor


@dataclass(frozen=True, slots=True)
class PlainConfig:
    """Hold the values of a config.json."""

    values: dict[str, Any] = field(repr=False)

    @property
    def hidden_size(self) -> int:
        return int(self.values["hidden_size"])

    @property
    def vocab_size(self) -> int:
        return int(self.values["vocab_size"])

    def to_dict(self) -> dict[str, Any]:
        return dict(self.values)


class PlainBert(nn.Module):
    """Compute the token vectors of BERT; its parameters have the names of published checkpoints."""

    def __init__(self, config: PlainConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _Embeddings(config.values)
        layers = (_Layer(config.values) for _ in range(config.values["num_hidden_layers"]))
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> TokenVectors:
        hidden = self.embeddings(input_ids, token_type_ids)
        mask = None if bool(attention_mask.all()) else _added_mask(attention_mask, hidden.dtype)
        for layer in self.encoder["layer"]:  # type: ignore[attr-defined]  # a ModuleList
            hidden = layer(hidden, mask)
        return TokenVectors(hidden)


class _Embeddings(nn.Module):
    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__()
        hidden = values["hidden_size"]
        self.word_embeddings = _table(values["vocab_size"], hidden)
        self.position_embeddings = _table(values["max_position_embeddings"], hidden)
        self.token_type_embeddings = _table(values["type_vocab_size"], hidden)
        self.LayerNorm = _norm(values)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        embedded = self.word_embeddings(ids) + self.token_type_embeddings(segments)
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        normed: Tensor = self.LayerNorm(embedded + self.position_embeddings(positions))
        return normed


class _Layer(nn.Module):
    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__()
        hidden, inner = values["hidden_size"], values["intermediate_size"]
        self._heads = values["num_attention_heads"]
        projections = nn.ModuleDict({name: nn.Linear(hidden, hidden) for name in ("query", "key", "value")})
        output = nn.ModuleDict({"dense": nn.Linear(hidden, hidden), "LayerNorm": _norm(values)})
        self.attention = nn.ModuleDict({"self": projections, "output": output})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(hidden, inner)})
        self.output = nn.ModuleDict({"dense": nn.Linear(inner, hidden), "LayerNorm": _norm(values)})

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        projections, output = self.attention["self"], self.attention["output"]
        query, key, value = (self._by_head(projections[name](hidden)) for name in ("query", "key", "value"))  # type: ignore[index]
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        joined = context.transpose(1, 2).contiguous().reshape(*hidden.shape[:-1], -1).contiguous()
        hidden = output["LayerNorm"](output["dense"](joined) + hidden)  # type: ignore[index]
        inner = functional.gelu(self.intermediate["dense"](hidden))
        normed: Tensor = self.output["LayerNorm"](self.output["dense"](inner) + hidden)
        return normed

    def _by_head(self, rows: Tensor) -> Tensor:
        return rows.view(*rows.shape[:-1], self._heads, -1).transpose(1, 2)


def _added_mask(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what attention adds to the scores, [rows, 1, width, width]: 0 for text, minus infinity for padding.

    Of a mask of true and false, torch would make these numbers in every layer, for every pair of tokens.
    """
    rows, width = attention_mask.shape
    added = torch.zeros(rows, 1, 1, width, dtype=dtype, device=attention_mask.device)
    padding = attention_mask[:, None, None, :] == 0
    return added.masked_fill_(padding, -torch.inf).expand(rows, 1, width, width)


def _table(rows: int, width: int) -> nn.Embedding:
    # nn.Embedding() draws its values, which on the device "meta" imports torch's compiler: two seconds.
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width))


def _norm(values: dict[str, Any]) -> nn.LayerNorm:
    return nn.LayerNorm(values["hidden_size"], eps=values.get("layer_norm_eps", 1e-12))


def load_plain_bert(folder: ModelFolder, dtype: torch.dtype) -> PlainBert | None:
    """Load a BERT of the original form onto the CPU, or return None where transformers has to read the folder.

    Raises:
        ModelNotFound: config.json cannot be read.
        SafetensorError: the weights are damaged.
    """
    from safetensors.torch import load_file

    values = read_json(folder.path / "config.json")
    if not _is_original(values):
        return None
    tensors = {name: tensor for file in weight_files(folder) for name, tensor in load_file(file).items()}
    with torch.device("meta"):
        model = PlainBert(PlainConfig(values))
    weights: dict[str, Tensor] = {}
    for name, empty in model.state_dict().items():
        tensor = tensors.get(name, tensors.get(f"bert.{name}"))
        if tensor is None or tensor.shape != empty.shape:
            return None
        weights[name] = tensor.to(dtype)
    model.load_state_dict(weights, assign=True)
    return model


def _is_original(values: dict[str, Any]) -> bool:
    if any(values.get(name, usual) != usual for name, usual in _ORIGINAL.items()) or "quantization_config" in values:
        return False
    sizes = [values.get(name) for name in (*_SIZES, "max_position_embeddings", "type_vocab_size")]
    return "model_type" in values and all(isinstance(size, int) and size > 0 for size in sizes)
