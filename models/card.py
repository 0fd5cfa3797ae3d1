"""Define the card of a model that can be served; what methods and engines need to know of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from models.types import Dtype
from models.verdicts import VerdictCalibration

PromptForm = Literal["base", "chat"]
Summaries = Literal["lead", "full"]
FALLBACK_CONTEXT: Final = 4096
_MASK: Final = re.compile(r"full|slim|[01]{6}")
# In a card, names the ability to answer messages without a method.
CHAT: Final = "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """Describe one model that can be served.

    ``source`` is a local directory or a hub id (``owner/name``). With ``gguf`` it is the directory to which that file
    is converted before it is loaded; ``gguf_sha256`` is the file's digest, None for a file that no card names.
    ``weights_sha256`` maps file name to hex digest; an empty map disables the check. ``adapter`` is the folder
    of a LoRA adapter in PEFT's format with which the model answers; ``adapter_sha256`` are the digests of its files.
    ``prompt_form`` says whether methods write plain text or use the chat template; with None they use it where the
    loaded tokenizer has one. ``genegpt_mask`` is the default choice of GeneGPT's prompt parts: ``full``, ``slim``
    or six digits 0/1 in the order Dc.1, Dc.2, Dm.1-Dm.4. ``summaries`` is how much of a gene's prose summary
    GeneGPT's replies contain: ``full``, or ``lead`` for a model whose context is too short for more than a first
    sentence. ``trained_for`` names the methods whose answers a model was trained to write, and ``chat`` where it
    chats, () for none; None for a general model, which is taken to write all. ``dtype`` applies where the options
    leave the choice open, for a model whose accuracy depends on it. ``context_tokens`` is how much evidence methods
    give it by default, for a model that reads slowly or loses its way in long texts; None for as much as its
    context holds. ``verdicts`` weighs what a model says that was trained to read yes, no or unclear from a sentence
    of the verifier's choice; None for others.
    ``allow_download`` lets an engine fetch a hub id; otherwise only local files are used.
    """

    name: str
    source: str
    revision: str | None = None
    gguf: Path | None = None
    gguf_sha256: str | None = None
    weights_sha256: Mapping[str, str] = field(default_factory=dict, hash=False)
    adapter: Path | None = None
    adapter_sha256: Mapping[str, str] = field(default_factory=dict, hash=False)
    licence: str = "unknown"
    description: str = ""
    context_length: int = FALLBACK_CONTEXT
    prompt_form: PromptForm | None = None
    genegpt_mask: str = "slim"
    summaries: Summaries = "full"
    trained_for: tuple[str, ...] | None = None
    dtype: Dtype = "auto"
    context_tokens: int | None = None
    verdicts: VerdictCalibration | None = None
    allow_download: bool = False

    def __post_init__(self) -> None:
        if not _MASK.fullmatch(self.genegpt_mask):
            raise ValueError(f"genegpt_mask is full, slim or six digits 0/1, not {self.genegpt_mask!r}")
        if self.context_length < 2:
            raise ValueError(f"context_length must be at least 2, not {self.context_length}")

    def writes(self, method: str) -> bool:
        """Return whether the model can write answers of the method, or chat by itself for ``CHAT``."""
        return self.trained_for is None or method in self.trained_for

    @property
    def is_general(self) -> bool:
        """Return whether the model writes by itself; another one looks up, copies or chooses what it was trained to."""
        return self.trained_for is None and not self.verdicts

    @property
    def is_local(self) -> bool:
        return self.gguf is not None or Path(self.source).is_dir()

    def dtype_for(self, requested: Dtype) -> Dtype:
        """Return ``requested``, or the model's own dtype if ``requested`` is ``auto``."""
        return self.dtype if requested == "auto" else requested
