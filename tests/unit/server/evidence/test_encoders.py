"""The pool of encoders: which ones run at a server, with which settings, and what its end closes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from models.encoders.base import Encoder, EncoderOptions, RemoteEncoderOptions, RemoteVectors
from models.encoders.hashing import HashingEncoder
from models.errors import UnsupportedParam
from server.evidence import encoders
from server.evidence.encoders import EncoderPool
from server.settings.retrieval import RetrievalSettings


class AtServer(HashingEncoder):
    """Counts how often it is closed."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.closed = 0

    def check(self) -> None:
        """Is always what it should be."""

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[RemoteEncoderOptions, AtServer]]:
    """The remote encoders that were made, with their options."""
    found: list[tuple[RemoteEncoderOptions, AtServer]] = []

    def create(_: str, remote: RemoteEncoderOptions, options: EncoderOptions) -> Encoder:
        found.append((remote, AtServer(remote.url)))
        return found[-1][1]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(encoders, "create_remote_encoder", create)
    return found


def pool(**settings: object) -> EncoderPool:
    given = {"encoders": "minilm,hashing", "encoder_urls": "minilm=http://10.0.0.1:8100", **settings}
    return EncoderPool(RetrievalSettings.model_validate(given))


def test_the_settings_reach_the_remote_encoder(
    made: list[tuple[RemoteEncoderOptions, AtServer]], tmp_path: Path
) -> None:
    """Address, key and where the local vectors are kept."""
    pool(encoder_api_key="hush").encoder()

    ((only, _),) = made
    assert only == RemoteEncoderOptions(
        url="http://10.0.0.1:8100", references=tmp_path / "arrowhead" / "encoders", api_key="hush"
    )


def test_closing_the_pool_closes_connections(made: list[tuple[RemoteEncoderOptions, AtServer]]) -> None:
    """Through the wrapper that measures; an encoder of this process has none."""
    opened = pool()
    assert isinstance(opened.encoder(), RemoteVectors)
    assert not isinstance(opened.encoder("hashing"), RemoteVectors)

    asyncio.run(opened.close())

    assert [one.closed for _, one in made] == [1]


def test_token_vectors_of_a_remote_encoder_are_refused_with_the_remedy() -> None:
    """Before anything is made; the others give them, or need none."""
    pool().check_tokens("hashing", "--no-tokens")
    with pytest.raises(UnsupportedParam, match=r"10\.0\.0\.1:8100.*--no-tokens") as refused:
        pool().check_tokens("minilm", "--no-tokens")

    assert refused.value.param == "tokens"
