"""Stands in for ``retrieval/corpus/readers/child.py``: does what the file says, as a library in trouble would."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path


def main(arguments: list[str]) -> None:
    os.write(1, json.dumps({"kind": f"process {os.getpid()}"}).encode() + b"\n")
    match Path(arguments[0]).read_text():
        case "hang in C":
            re.fullmatch(r"(a|a)*b", "a" * 100)
        case "wait":
            time.sleep(100_000)
        case "die":
            os._exit(3)
        case "half a line":
            os.write(1, b'{"document": ')
