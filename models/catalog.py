"""Which models can be served, and under which names. Owns model cards; loads no weights and opens no connection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PromptForm = Literal["base", "chat"]

EMBEDDED_NAME = "arrowhead-tiny"
EMBEDDED_DIR = Path(__file__).parent / "embedded" / EMBEDDED_NAME
EMBEDDED_LICENCE = "Apache-2.0"
EMBEDDED_DESCRIPTION = (
    "Small Llama that ships with Arrowhead: writes NCBI calls and reads their replies; knows no facts"
)

_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
# Endings that say how a checkpoint was tuned; the served name leaves them out, the card's source keeps them.
_TUNING_SUFFIX = re.compile(r"-(instruct|chat|it|hf)$")
_DEFAULT_CONTEXT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """One model that can be served.

    ``source`` is a local directory or a hub id (``owner/name``). ``weights_sha256`` maps file name to hex digest;
    an empty map checks nothing. ``prompt_form`` says whether methods write plain text or use the chat template.
    ``genegpt_mask`` is the default choice of GeneGPT's prompt parts: ``full``, ``slim`` or six digits 0/1 in the
    order Dc.1, Dc.2, Dm.1-Dm.4. ``allow_download`` lets an engine fetch a hub id; otherwise only files already
    here are used.
    """

    name: str
    source: str
    revision: str | None = None
    weights_sha256: Mapping[str, str] | None = None
    licence: str = "unknown"
    description: str = ""
    context_length: int = _DEFAULT_CONTEXT
    prompt_form: PromptForm = "base"
    genegpt_mask: str = "slim"
    allow_download: bool = False

    @property
    def is_local(self) -> bool:
        return Path(self.source).is_dir()
