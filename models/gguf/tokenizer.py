"""Write the tokenizer of a GGUF file as tokenizer.json.

Byte-level BPE alone. A file names how text is cut into words before merging (``tokenizer.ggml.pre``) and does not
describe it: only kinds that are known here are converted, since another cut gives other tokens than those of training.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from models.errors import ModelNotFound

# ggml's kinds of tokens.
_CONTROL, _USER_DEFINED = 3, 4
_LLAMA3: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2: Final = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_KINDS: Final = ("gpt-2", "smollm", "llama-bpe", "qwen2")


def write_tokenizer(metadata: Mapping[str, Any], folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and the chat template into ``folder``.

    ``metadata`` holds the vocabulary and the merges as lists.

    Raises:
        ModelNotFound: the tokenizer is of a kind that is not converted.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    kind, pre = metadata.get("tokenizer.ggml.model"), str(metadata.get("tokenizer.ggml.pre", "none"))
    if kind != "gpt2" or pre not in _KINDS:
        raise ModelNotFound(
            f"the GGUF file's tokenizer ({kind}, {pre}) is not converted, but byte-level BPE of the kinds "
            f"{', '.join(_KINDS)}; fetch the model in its safetensors form"
        )
    tokens: list[str] = list(metadata["tokenizer.ggml.tokens"])
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise ModelNotFound("the GGUF file's vocabulary has equal tokens")
    backend = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=pre == "llama-bpe"))
    _cut_words(backend, pre)
    backend.decoder = decoders.ByteLevel()
    kinds = metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    backend.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds, strict=True) if k == _CONTROL]
    )
    backend.add_tokens(
        [AddedToken(t, normalized=False) for t, k in zip(tokens, kinds, strict=True) if k == _USER_DEFINED]
    )
    _put_in_front(backend, metadata, tokens, pre)
    ids = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    named = {name: metadata.get(f"tokenizer.ggml.{key}_token_id") for name, key in ids.items()}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=backend, **{name: tokens[index] for name, index in named.items() if index is not None}
    )
    fast.chat_template = metadata.get("tokenizer.chat_template")
    fast.save_pretrained(folder)


def _cut_words(backend: Any, pre: str) -> None:
    from tokenizers import Regex, normalizers, pre_tokenizers

    if pre in ("gpt-2", "smollm"):
        words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        steps: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if pre == "smollm" else []
    else:
        words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        steps = [pre_tokenizers.Split(Regex(_QWEN2 if pre == "qwen2" else _LLAMA3), "isolated")]
    backend.pre_tokenizer = pre_tokenizers.Sequence([*steps, words])
    if pre == "qwen2":
        backend.normalizer = normalizers.NFC()


def _put_in_front(backend: Any, metadata: Mapping[str, Any], tokens: list[str], pre: str) -> None:
    """Let the first token of a text be the one that the file names, where the file says so."""
    from tokenizers.processors import TemplateProcessing

    first = metadata.get("tokenizer.ggml.bos_token_id")
    if first is not None and metadata.get("tokenizer.ggml.add_bos_token", pre == "llama-bpe"):
        backend.post_processor = TemplateProcessing(
            single=f"{tokens[first]} $A", pair=f"{tokens[first]} $A $B", special_tokens=[(tokens[first], first)]
        )
