"""Builds tiny random models of well-known families, with tokenizers and chat templates of their shapes.

Nothing is downloaded: the tokenizers are trained on the text below, the templates are ours, in the families' forms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TEXT = (
    "What is the official gene symbol of LMP10? [https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?db=gene"
    "&retmax=5&retmode=json&sort=relevance&term=LMP10]->[5699,8138,19171]\nAnswer: PSMB10\n\nsystem user assistant\n"
    "You answer in one word. The gene is on chromosome 16. Thanks, and which one is it?\n    indented\n\n\nEnd."
)
CONTEXT = 1024
# Words, numbers of up to three digits, signs, line ends, other white space.
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

LLAMA3 = (
    "{{- bos_token }}{%- for m in messages %}{{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' }}"
    "{{- m['content'] | trim + '<|eot_id|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"
)
CHATML = (
    "{%- if messages[0]['role'] != 'system' %}"
    "{{- '<|im_start|>system\nYou answer in one word.<|im_end|>\n' }}{%- endif %}"
    "{%- for m in messages %}{{- '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
QWEN3 = (
    "{%- set ns = namespace(last=0) %}{%- for m in messages %}{%- if m['role'] == 'user' and not "
    "(m['content'].startswith('<tool_response>') and m['content'].endswith('</tool_response>')) %}"
    "{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}"
    "{%- for m in messages %}{%- set content = m['content'] %}"
    "{%- if m['role'] == 'assistant' %}{%- set thoughts = '' %}{%- if '</think>' in content %}"
    "{%- set thoughts = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}"
    "{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}"
    "{%- if loop.index0 > ns.last and thoughts %}"
    "{%- set content = '<think>\n' + thoughts + '\n</think>\n\n' + content %}{%- endif %}{%- endif %}"
    "{{- '<|im_start|>' + m['role'] + '\n' + content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}"
    "{%- endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Turns must alternate user/assistant/user') }}{% endif %}"
    "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
    "{% elif m['role'] == 'assistant' %}{{ ' ' + m['content'] | trim + eos_token }}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported') }}{% endif %}{% endfor %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Turns must alternate user/assistant/user') }}{% endif %}"
    "{% set role = 'model' if m['role'] == 'assistant' else m['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + m['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
PHI3 = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)


@dataclass(frozen=True)
class Family:
    """One family: how its tokenizer is made, its tokens, its template and its model.

    ``special`` are marked special in its files, ``added`` are not. ``ends`` are the tokens that end a reply,
    ``listed`` of them stand in its configs.
    """

    name: str
    tokenizer: Callable[[Family], Any]
    template: str
    architecture: str
    special: tuple[str, ...]
    added: tuple[str, ...] = ()
    bos: str | None = None
    eos: str = "</s>"
    ends: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)


def _trained(pre_tokenizer: Any, alphabet: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A vocabulary and merges learnt from the text; ids from 0."""
    from tokenizers import Tokenizer, models, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizer
    backend.train_from_iterator(
        [TEXT], trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False)
    )
    model = json.loads(backend.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def _with_tokens(backend: Any, family: Family) -> Any:
    from tokenizers import AddedToken

    rstrip = family.name == "phi3"
    tokens = [AddedToken(t, special=True, normalized=False, rstrip=rstrip and "|" in t) for t in family.special]
    backend.add_special_tokens(tokens)
    backend.add_tokens([AddedToken(t, special=False, normalized=False) for t in family.added])
    return backend


def _with_bos(backend: Any, family: Family) -> Any:
    from tokenizers import processors

    bos = backend.token_to_id(family.bos)
    backend.post_processor = processors.TemplateProcessing(
        single=f"{family.bos} $A", pair=f"{family.bos} $A {family.bos} $B", special_tokens=[(family.bos, bos)]
    )
    return backend


def byte_level(family: Family) -> Any:
    """Llama 3 and Qwen: bytes as characters, words cut by an expression, NFC for Qwen."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    words = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    vocabulary, merges = _trained(words, pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=family.name == "llama3"))
    backend.pre_tokenizer = words
    backend.decoder = decoders.ByteLevel()
    if family.name.startswith("qwen"):
        backend.normalizer = normalizers.NFC()
    backend = _with_tokens(backend, family)
    return _with_bos(backend, family) if family.bos else backend


def sentence_piece(family: Family) -> Any:
    """Mistral, Phi-3 and Gemma: spaces as ▁, bytes as a fallback; what is put in front differs."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    learnt, merges = _trained(pre_tokenizers.Metaspace(), [])
    pieces = ["<unk>", "<s>", "</s>"] if family.name != "gemma3" else ["<pad>", "<eos>", "<bos>", "<unk>"]
    pieces += [f"<0x{i:02X}>" for i in range(256)] + ["▁"] + [token for token in learnt if token != "▁"]
    # The vocabulary of a SentencePiece model has its control tokens too.
    pieces += [token for token in (*family.special, *family.added) if token not in pieces]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    backend = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    to_text: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if family.name == "gemma3":
        backend.normalizer = normalizers.Replace(" ", "▁")
        backend.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    elif family.name == "mistral":
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        to_text.append(decoders.Strip(" ", 1, 0))
    else:
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        to_text.append(decoders.Strip(" ", 1, 0))
    backend.decoder = decoders.Sequence(to_text)
    backend = _with_tokens(backend, family)
    return _with_bos(backend, family) if family.name != "phi3" else backend


_QWEN = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
FAMILIES = {
    family.name: family
    for family in (
        Family(
            "llama3",
            byte_level,
            LLAMA3,
            "Llama",
            special=(
                "<|begin_of_text|>",
                "<|end_of_text|>",
                "<|start_header_id|>",
                "<|end_header_id|>",
                "<|eom_id|>",
                "<|eot_id|>",
            ),
            bos="<|begin_of_text|>",
            eos="<|end_of_text|>",
            ends=("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
            listed=("<|end_of_text|>", "<|eom_id|>"),
            config={
                "rope_parameters": {
                    "rope_type": "llama3",
                    "rope_theta": 500000.0,
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 128,
                }
            },
        ),
        Family(
            "qwen2",
            byte_level,
            CHATML,
            "Qwen2",
            special=_QWEN,
            eos="<|endoftext|>",
            ends=("<|endoftext|>", "<|im_end|>"),
            listed=("<|endoftext|>",),
        ),
        Family(
            "qwen3",
            byte_level,
            QWEN3,
            "Qwen3",
            special=_QWEN,
            added=("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
            eos="<|im_end|>",
            ends=("<|endoftext|>", "<|im_end|>"),
            listed=("<|im_end|>", "<|endoftext|>"),
            config={"head_dim": 32},
        ),
        Family(
            "mistral",
            sentence_piece,
            MISTRAL,
            "Mistral",
            special=("<unk>", "<s>", "</s>", "[INST]", "[/INST]"),
            bos="<s>",
            ends=("</s>",),
            listed=("</s>",),
            config={"head_dim": 32, "sliding_window": None},
        ),
        Family(
            "gemma3",
            sentence_piece,
            GEMMA,
            "Gemma3Text",
            special=("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"),
            added=("\n\n", "\n\n\n", "▁▁▁▁", "<sup>", "</sup>", "<unused0>"),
            bos="<bos>",
            eos="<eos>",
            ends=("<eos>", "<end_of_turn>"),
            listed=("<eos>",),
            config={"head_dim": 32, "sliding_window": 4096, "query_pre_attn_scalar": 32, "initializer_range": 0.05},
        ),
        Family(
            "phi3",
            sentence_piece,
            PHI3,
            "Phi3",
            special=("<unk>", "<s>", "</s>", "<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
            bos="<s>",
            eos="<|endoftext|>",
            ends=("<|endoftext|>", "<|end|>"),
            listed=("<|endoftext|>",),
            config={"pad_token_id": 0},
        ),
    )
}


def build_tokenizer(family: Family, directory: Path) -> Any:
    """Save the family's tokenizer and template and return what transformers loads from there."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(
        tokenizer_object=family.tokenizer(family), bos_token=family.bos, eos_token=family.eos
    )
    fast.chat_template = family.template
    fast.save_pretrained(directory)
    return AutoTokenizer.from_pretrained(directory)


def build_model(family: Family, directory: Path, *, seed: int = 0) -> Path:
    """A random float32 model of two layers with its tokenizer, its end tokens as its configs list them."""
    import torch
    import transformers

    fast = build_tokenizer(family, directory)
    listed = [fast.convert_tokens_to_ids(token) for token in family.listed]
    config_class = getattr(transformers, f"{family.architecture}Config")
    config = config_class(
        vocab_size=-(-len(fast) // 64) * 64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=CONTEXT,
        bos_token_id=fast.bos_token_id,
        # Several in config.json for some, one for others; the rest in generation_config.json or the template alone.
        eos_token_id=listed if len(listed) > 1 else listed[0],
        **{"initializer_range": 0.5, **family.config},
    )
    name = "Gemma3ForCausalLM" if family.architecture == "Gemma3Text" else f"{family.architecture}ForCausalLM"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, name)(config)
    if not config.tie_word_embeddings:
        # Small logits, so that sampling is nearly even: every end token comes up.
        model.lm_head.weight.data *= 0.1
    model.generation_config.eos_token_id = listed[0]
    model.save_pretrained(directory)
    return directory
