"""Convert a model folder's pytorch_model.bin to model.safetensors, once; the server itself reads no pickled weights.

    hf download ncbi/MedCPT-Cross-Encoder --revision 71caf65d4927987813984f54c284405a13fcca49 --local-dir FOLDER
    python scripts/convert_weights.py FOLDER [--sha256 HEX]

torch's restricted loader reads the file; it builds tensors and calls nothing else, and refuses a file that requires
more. ``--sha256`` is the publisher's digest of pytorch_model.bin; a file with another digest is refused unread.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file

SOURCE: Final = "pytorch_model.bin"
TARGET: Final = "model.safetensors"


class Refused(Exception):
    """The folder is left as it was."""


def convert(folder: Path, sha256: str | None = None) -> Path:
    """Write the target beside the source, whole or not at all. Raises Refused."""
    source, target = folder / SOURCE, folder / TARGET
    if target.exists():
        raise Refused(f"{target} exists already")
    if not source.is_file():
        raise Refused(f"{source} is missing")
    if sha256 is not None:
        with source.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256.lower():
            raise Refused(f"{source} has the sha256 {found}, not {sha256}")
    tensors = _tensors(source)
    partial = target.with_suffix(".part")
    try:
        save_file(tensors, partial, {"format": "pt"})
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _tensors(source: Path) -> dict[str, torch.Tensor]:
    try:
        state: Any = torch.load(source, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise Refused(f"{source} is not a file of plain tensors: {first}") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise Refused(f"{source} holds more than named tensors")
    # Tensors that share memory are written once each: the format has no sharing.
    return {str(name): value.detach().clone().contiguous() for name, value in state.items()}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sha256", help=f"of {SOURCE}")
    arguments = parser.parse_args(argv)
    try:
        print(convert(arguments.folder, arguments.sha256))
    except Refused as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
