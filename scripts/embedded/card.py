"""Write the embedded model's card from the measurements of the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_TEXT = """---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---
# arrowhead-tiny

A Llama of {parameters:,} parameters, trained from scratch on generated transcripts to do one job: write NCBI call
URLs, read the condensed replies that the interception loop puts in, and answer look-up questions about genes, SNPs,
diseases and DNA sequences. It exists so that a machine without GPU, hub or internet runs the whole server for real.
It is no general language model and knows no facts: every symbol, identifier and name in its training text is random,
so whatever is right in an answer was copied from a reply. It is no medical device.

- Prompt: `Question: ...` and a line feed, nothing else. End of answer: a blank line after `Answer: ...`.
- Weights: bfloat16 safetensors. Tokenizer: byte-level; digits in threes, capitals in pairs, DNA in fours.
- Made by `python -m scripts.train_embedded_model`; the run's settings, one line for every time it was resumed with
  others:
{plans}

## Scores on held-out generated transcripts
Share of transcripts in which every token the model writes (all calls and the answer) is right, greedily, 100 each:

| question type | right |
| --- | --- |
{scores}

Scores on real questions and recorded replies are in `docs/benchmarks.md`.

## Loss curve
Mean cross-entropy per written token since the row before, and the share of held-out transcripts right in every token.

| tokens | seconds | loss | right |
| --- | --- | --- | --- |
{curve}
"""


def write_card(
    folder: Path,
    plans: Sequence[Mapping[str, Any]],
    log: Sequence[Mapping[str, Any]],
    scores: Mapping[str, float],
    parameters: int,
) -> None:
    rows = []
    for row in log:
        right = sum(row["right"].values()) / len(row["right"])
        rows.append(f"| {row['seen']:,} | {row['seconds']:,} | {row['loss']:.4f} | {right:.3f} |")
    text = _TEXT.format(
        parameters=parameters,
        plans="\n".join("  - " + ", ".join(f"{k} {v}" for k, v in plan.items()) for plan in plans),
        scores="\n".join(f"| {kind} | {share:.2f} |" for kind, share in scores.items()),
        curve="\n".join(rows),
    )
    (folder / "README.md").write_text(text)
    about = {
        "licence": "apache-2.0",
        "description": "The small model that ships with Arrowhead: NCBI look-ups, copied from replies",
        "genegpt_mask": "000000",
        "summaries": "lead",
        "trained_for": ["genegpt"],
        "dtype": "float32",
        "weights_sha256": {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.glob("*.safetensors"))
        },
    }
    (folder / "arrowhead.json").write_text(json.dumps(about, indent=1) + "\n")
