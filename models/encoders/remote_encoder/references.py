"""Keep the vectors of fixed probe texts as the local encoder computes them, one file for each fingerprint.

They are computed once, in a process of its own: a server whose encoders are remote then needs no torch in its memory.
"""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import numpy as np

from models.encoders.base import Encoder, EncoderFingerprint, EncoderOptions, Floats, PassageText
from models.encoders.resolve import ResolvedEncoder
from models.errors import ENCODER_UNUSABLE, ModelError, ModelNotFound
from models.files import first_line

# The first one goes with every request, so it is short. The others differ in what a server may do otherwise: special
# tokens, letters beyond ASCII, truncation, an empty text, and punctuation that a decoder may join to words ("do not",
# "isn't") in a server that decodes ids and encodes the text again.
PROBES: Final = (
    PassageText("", "aspirin in stroke"),
    PassageText("", ""),
    PassageText("Früherkennung des Schlaganfalls", "β-Blocker und α-Synuklein: η θεραπεία, 5 µg täglich."),
    PassageText("Statins.", "They do not lower mortality (n = 1,204); it's unclear, isn't it? TP53, IL-6 [SEP] p<0.05"),
    PassageText("Metformin", "Glucose and insulin in patients with sepsis, hepatitis or neuropathy. " * 60),
)
_VERSION: Final = 1
_TIMEOUT_S: Final = 600


def probe_vectors(resolved: ResolvedEncoder, fingerprint: EncoderFingerprint, folder: Path) -> Floats:
    """Return the local vectors of ``PROBES``, first as passages, then as queries; compute them where none are stored.

    Raises:
        ModelNotFound: they cannot be computed or stored here.
    """
    described = json.dumps([_VERSION, fingerprint.as_dict(), PROBES], sort_keys=True)
    path = folder / f"{hashlib.sha256(described.encode()).hexdigest()[:32]}.npy"
    try:
        rows = np.load(path, allow_pickle=False)
        if rows.dtype == np.float32 and rows.shape == (2 * len(PROBES), fingerprint.dim) and np.isfinite(rows).all():
            return rows  # type: ignore[no-any-return]  # of any array
    except (OSError, ValueError, EOFError):
        pass  # none, or a damaged one
    # Not a fork, which would copy the locks of this process's threads.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        try:
            rows = process.submit(_local_rows, resolved).result()
            _store(path, rows)
        except (ModelError, OSError, BrokenProcessPool) as error:
            raise ModelNotFound(
                f"{resolved.spec.name}: the vectors that a server's are compared with cannot be computed here "
                f"({first_line(error)}); a machine that has the same model files and torch can make the file {path}",
                ENCODER_UNUSABLE,
            ) from error
    return rows


def query_texts(probes: Sequence[PassageText]) -> list[str]:
    return [probe.text for probe in probes]


def probe_rows(encoder: Encoder) -> Floats:
    """Return an encoder's vectors of ``PROBES``, first as passages, then as queries."""
    return np.concatenate([encoder.encode_passages(PROBES), encoder.encode_queries(query_texts(PROBES))])


def _local_rows(resolved: ResolvedEncoder) -> Floats:
    """Compute the vectors of the probe texts; ends its process where that takes too long."""
    from models.encoders.transformers_encoder.encoder import TransformersEncoder

    signal.alarm(_TIMEOUT_S)
    return probe_rows(TransformersEncoder(resolved, EncoderOptions(device="cpu", dtype="float32", batch_tokens=512)))


def _store(path: Path, rows: Floats) -> None:
    """Replace the file at once, readable by its owner alone; processes that do so together write the same."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as draft:
        np.save(draft, rows, allow_pickle=False)
    Path(draft.name).replace(path)
