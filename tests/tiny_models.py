"""Builds tiny random models with real tokenizers for tests; nothing is downloaded and nothing is learnt."""

from __future__ import annotations

import json
from pathlib import Path

TEXT = (
    "What is the official gene symbol of LMP10? [https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?db=gene"
    "&retmax=5&retmode=json&sort=relevance&term=LMP10]->[5699,8138,19171]\nAnswer: PSMB10\n\n"
)
CHAT_TEMPLATE = (
    "{{ '<|begin|>' }}{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] | trim + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
SPECIALS = ("<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
CONTEXT = 512


def build_tokenizer(directory: Path) -> None:
    """Byte-level BPE over our own text, `]->` one token, specials and a chat template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=384, initial_alphabet=alphabet, special_tokens=list(SPECIALS), show_progress=False
    )
    backend.train_from_iterator([TEXT], trainer)
    backend.add_tokens([AddedToken("]->", normalized=False)])
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<|begin|>", eos_token="<|end|>")
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(directory)


def build_llama(directory: Path, *, seed: int = 0, context: int = CONTEXT) -> Path:
    """A random float32 Llama (2 layers, width 64, grouped-query attention) with the tokenizer beside it."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    build_tokenizer(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    config = LlamaConfig(
        # Padded, as real models' vocabularies are.
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=context,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.save_pretrained(directory)
    return directory


def build_adapter(folder: Path, seed: int = 7) -> Path:
    """An adapter of rank 4 on the output projection of attention, large enough to change each answer."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for layer in range(2):
        name = f"base_model.model.model.layers.{layer}.self_attn.o_proj"
        weights[f"{name}.lora_A.weight"] = torch.randn(4, 64, generator=generator)
        weights[f"{name}.lora_B.weight"] = torch.randn(64, 4, generator=generator)
    save_file(weights, str(folder / "adapter_model.safetensors"))
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["o_proj"], "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder
