"""Write what lies beside trained weights: facts for the server, and the loss curve."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from models.files import CARD_FILE, sha256_of

_SMOOTH: Final = 8


def write_facts(folder: Path, base_sha256: str | None = None) -> None:
    """Write digests into the folder's ``arrowhead.json``; what else it says, which is for people to judge, stays."""
    file = folder / CARD_FILE
    facts = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if base_sha256 is not None:
        facts["base_gguf_sha256"] = base_sha256
    weights = sorted(folder.glob("*.safetensors"))
    facts["weights_sha256"] = {one.name: sha256_of(one) for one in weights}
    file.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def loss_curve(log: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Write an SVG of the mean loss of each few steps over the tokens read; nothing for an empty log."""
    if not log:
        return
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "loss"
    from matplotlib import pyplot as plt

    tokens, losses, seen = [], [], 0
    for place, row in enumerate(log):
        seen += row["tokens"]
        near = log[max(0, place - _SMOOTH + 1) : place + 1]
        tokens.append(seen / 1000)
        losses.append(sum(one["loss"] for one in near) / len(near))
    figure, axes = plt.subplots(figsize=(6, 3))
    axes.plot(tokens, losses, linewidth=1.2)
    axes.set_xlabel("thousand tokens read (each question with its whole context)")
    axes.set_ylabel(f"loss, mean of {_SMOOTH} steps")
    axes.set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
