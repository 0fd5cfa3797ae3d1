"""Build models of any shape with random weights, for measuring speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from models.catalog import ModelCard

ROOT = Path(__file__).resolve().parents[3]
CONTEXT = 16_384


def build_tokenizer() -> Any:
    """Byte-level BPE of 8,192 tokens, learnt from this checkout's pages, notes and prompts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=8192, initial_alphabet=alphabet, special_tokens=["<s>", "</s>"], show_progress=False
    )
    texts = [*ROOT.glob("docs/*.md"), *ROOT.glob("retrieval/corpus/ingest/sample/*.txt"), *ROOT.glob("server/**/*.txt")]
    backend.train_from_iterator([text.read_text(encoding="utf-8") for text in texts], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")


def build_model(folder: Path, shape: str) -> ModelCard:
    """Random weights of this shape, and a tokenizer that writes English as shortly as large models' do."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    layers, width = map(int, shape.split("x"))
    tokenizer = build_tokenizer()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=max(1, width // 64),
        num_key_value_heads=max(1, width // 256),
        max_position_embeddings=CONTEXT,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return ModelCard(name=f"random-{shape}", source=str(folder), prompt_form="base", context_length=CONTEXT)
