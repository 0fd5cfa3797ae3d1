"""Select and build encoders.

Imports torch only for an encoder with weights.
"""

from __future__ import annotations

from models.encoders.base import CrossEncoder, Encoder, EncoderOptions
from models.encoders.hashing import HashingEncoder, OverlapCrossEncoder
from models.encoders.resolve import resolve_cross_encoder, resolve_encoder
from models.encoders.specs import DEFAULT_ENCODER, HASHING, OVERLAP, CrossEncoderSpec, EncoderSpec


def create_encoder(spec_or_id: EncoderSpec | str = DEFAULT_ENCODER, options: EncoderOptions | None = None) -> Encoder:
    """Build an encoder, blocking until the weights are in memory.

    ``spec_or_id``: a name of ``KNOWN_ENCODERS``, ``hashing`` (no weights, matches words alone), a hub id, a
    directory, or a spec.

    Raises:
        ModelNotFound: files are missing or damaged.
        EncoderUnusable: the files do not specify how vectors are computed, or hold no safe or no complete weights.
        EngineUnavailable: this machine cannot run them.
        UnsupportedParam: the options do not fit.
    """
    if spec_or_id == HASHING:
        return HashingEncoder()
    options = options or EncoderOptions()
    resolved = resolve_encoder(spec_or_id, options)
    from models.encoders.transformers_encoder.encoder import TransformersEncoder

    return TransformersEncoder(resolved, options)


def create_cross_encoder(spec_or_id: CrossEncoderSpec | str, options: EncoderOptions | None = None) -> CrossEncoder:
    """Build a cross-encoder, blocking until the weights are in memory.

    ``spec_or_id``: a name of ``KNOWN_CROSS_ENCODERS``, ``overlap``, a hub id, a directory, or a spec. Raises as
    ``create_encoder`` does.
    """
    if spec_or_id == OVERLAP:
        return OverlapCrossEncoder()
    options = options or EncoderOptions()
    resolved = resolve_cross_encoder(spec_or_id, options)
    from models.encoders.transformers_encoder.cross_encoder import TransformersCrossEncoder

    return TransformersCrossEncoder(resolved, options)
