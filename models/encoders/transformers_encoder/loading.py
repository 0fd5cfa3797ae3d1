"""Load a transformers model from a folder's safetensors onto a device, and reject an incomplete one.

Owns the device and the dtype in which torch computes.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final

import torch

from models.encoders.base import EncoderOptions
from models.encoders.model_files import ModelFolder, weight_files
from models.encoders.resolve import check_tables
from models.encoders.transformers_encoder.plain_bert import load_plain_bert
from models.errors import EncoderUnusable, EngineUnavailable, ModelNotFound
from models.torch_runtime.devices import DTYPES, cpu_has_bfloat16, torch_device
from models.torch_runtime.layers import pack_linears
from models.torch_runtime.openmp import run_in_new_thread

_CPU_BATCH_TOKENS: Final = 2048
_CUDA_BATCH_TOKENS: Final = 65_536
# The layer over [CLS] that many checkpoints lack and no vector here uses.
_UNUSED: Final = "pooler."
SEGMENTS: Final = "token_type_ids"


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
    def computing(self) -> Iterator[None]:
        """Set the thread count for a forward pass and restore it after, since the process computes elsewhere too."""
        if self.threads is None or self.device.type != "cpu":
            yield
            return
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
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
        ModelNotFound: files are missing or damaged.
        EncoderUnusable: weights that the model needs are not in the files.
        EngineUnavailable: this machine cannot run it.
    """
    return run_in_new_thread(partial(_load, _read_classifier, folder, placement))


def check_lengths(model: Any, tokenizer: Any, max_tokens: int, name: str) -> None:
    """Check that every token and every position has a row in the model's tables.

    Raises:
        EncoderUnusable: one has none.
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
        raise ModelNotFound(f"cannot load {folder.path}: {_first_line(error)}") from error
    except (ValueError, KeyError, ImportError, RuntimeError) as error:
        raise EngineUnavailable(f"transformers cannot run {folder.path}: {_first_line(error)}") from error
    except Exception as error:
        # safetensors' own error has no base class but this one.
        if type(error).__name__ != "SafetensorError":
            raise
        raise ModelNotFound(f"the weights of {folder.path} are damaged: {_first_line(error)}") from error


def _check_report(report: Any, folder: ModelFolder) -> None:
    """Reject a model with missing or mismatched weights.

    transformers fills missing weights with random numbers and only warns.
    """
    missing = sorted(key for key in report["missing_keys"] if _UNUSED not in key)
    wrong = sorted(map(str, report["mismatched_keys"])) + sorted(map(str, report["error_msgs"]))
    if missing or wrong:
        names = ", ".join((missing + wrong)[:4])
        raise EncoderUnusable(
            f"{folder.path}: {len(missing) + len(wrong)} weights that the model needs are not in its files: {names}"
        )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
