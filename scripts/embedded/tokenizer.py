"""Build the embedded model's tokenizer: byte-level, with identifiers split the same way in every position.

Digits are split in threes from the left, capitals in pairs, DNA in fours, lower-case words by BPE; a frequent word of
plain prose includes the preceding space, so that a few tokens of context distinguish one place in a text from another;
the fixed parts of the call URLs and the arrow ``]->`` are single tokens. The split depends on the identifier alone, so
that a symbol in the question, in the URL and in the reply is the same token sequence and is copied token for token.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from scripts.embedded.words import affixes, common_words, prose_words

END_OF_TEXT = "<|endoftext|>"
EUTILS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/"
BLAST_PUT = "https://blast.ncbi.nlm.nih.gov/blast/Blast.cgi?CMD=Put&PROGRAM=blastn&MEGABLAST=on&DATABASE=nt&FORMAT_TYPE=XML&QUERY="
BLAST_END = "&HITLIST_SIZE=5"
_LITERALS = (
    BLAST_PUT,
    BLAST_END,
    *(f"{EUTILS}{endpoint}.fcgi?db={db}" for endpoint in ("esearch", "esummary") for db in ("gene", "snp", "omim")),
    "&retmax=5&retmode=json&sort=relevance&term=",
    "&retmax=20&retmode=json&sort=relevance&term=",
    "&retmax=5&retmode=json&id=",
    "&retmax=20&retmode=json&id=",
    "]->",
    "Question: ",
    "Answer: ",
)
_STEMS = ("chr(?=[0-9XYMUI])", "rs(?=[0-9])", "ENSG(?=[0-9])", "LOC(?=[0-9])", "LINC(?=[0-9])")
_NUM_WORD_TOKENS = 1100


def _pattern() -> str:
    literals = [re.escape(text).replace(r"\-", "-") for text in sorted(_LITERALS, key=len, reverse=True)]
    with_space = "(?<=[a-z]) (?:" + "|".join(sorted(prose_words(), key=len, reverse=True)) + ")(?![A-Za-z0-9])"
    rest = ["[ACGT]{4}(?=[ACGT]{8})", with_space, "[A-Z]{1,2}", "[a-z]+", "[0-9]{1,3}", "\\s", "."]
    return "|".join([*literals, *_STEMS, *rest])


def _word_bpe() -> tuple[list[str], list[tuple[str, str]]]:
    """BPE tokens and merges over the words of the synthetic texts."""
    draw = random.Random(0)
    prefixes, stems, suffixes = affixes()
    made = [draw.choice(prefixes) + draw.choice(stems) + draw.choice(suffixes) for _ in range(4000)]
    words = common_words() * 12 + made
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=_NUM_WORD_TOKENS, show_progress=False, initial_alphabet=[])
    bpe.train_from_iterator(words, trainer)
    model = json.loads(bpe.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [tuple(pair) for pair in model["merges"]]


def build_tokenizer() -> Tokenizer:
    """Deterministic: the same vocabulary and ids at every call."""
    words, merges = _word_bpe()
    # The byte-level alphabet writes a space as "Ġ"; the literals hold none but those of "Question: " and "Answer: ".
    tokens = [END_OF_TEXT, *sorted(pre_tokenizers.ByteLevel.alphabet()), *words]
    tokens += [word for word in common_words() if len(word) > 1]
    tokens += [f"Ġ{word}" for word in prose_words()]
    tokens += [text.replace(" ", "Ġ") for text in _LITERALS] + [stem.split("(")[0] for stem in _STEMS]
    digits, letters = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    tokens += ["".join(p) for n in (2, 3) for p in itertools.product(digits, repeat=n)]
    tokens += ["".join(p) for p in itertools.product(letters, repeat=2)]
    tokens += ["".join(p) for p in itertools.product("ACGT", repeat=4)]
    vocab = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
    split = pre_tokenizers.Split(Regex(_pattern()), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END_OF_TEXT])
    return tokenizer


def save_tokenizer(folder: Path) -> None:
    """Write the files that transformers and vLLM load."""
    folder.mkdir(parents=True, exist_ok=True)
    build_tokenizer().save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
