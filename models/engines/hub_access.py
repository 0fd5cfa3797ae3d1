"""Keep huggingface_hub off the network where downloads are not allowed."""

from __future__ import annotations

import os
import sys
from typing import Final

_SWITCHES: Final = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")


def stay_off_the_hub() -> None:
    """Disable the hub's network access for the rest of this process and for its children.

    ``local_files_only`` is not enough: the library asks its server about the caller's environment before it looks into
    its cache. It reads its switches once, at import, so they are also set in modules that are already imported.
    """
    os.environ.update(dict.fromkeys((*_SWITCHES, "TRANSFORMERS_OFFLINE"), "1"))
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        for switch in _SWITCHES:
            setattr(constants, switch, True)
