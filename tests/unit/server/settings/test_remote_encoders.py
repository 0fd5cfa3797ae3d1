"""The addresses of encoders on other servers."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from server.settings.retrieval import RetrievalSettings


def test_names_and_addresses_are_read_from_one_line() -> None:
    settings = RetrievalSettings.model_validate(
        {
            "encoders": "minilm,contriever",
            "encoder_urls": "minilm=http://10.0.0.1:8100/, contriever=https://gpu.example",
        }
    )

    assert settings.remote_encoders == {"minilm": "http://10.0.0.1:8100", "contriever": "https://gpu.example"}


@pytest.mark.parametrize(
    ("urls", "message"),
    [
        ("http://10.0.0.1:8100", "name=url"),
        ("minilm=http://10.0.0.1/v1", "name=url"),
        ("minilm=http://user@10.0.0.1", "user name"),
        ("medcpt=http://10.0.0.1", "not among"),
        ("hashing=http://10.0.0.1", "no weights"),
        ("minilm=http://8.8.8.8", "unencrypted"),
        ("minilm=http://10.0.0.1,minilm=http://10.0.0.2", "twice"),
    ],
)
def test_wrong_addresses_are_refused(urls: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RetrievalSettings.model_validate({"encoders": "minilm,hashing", "encoder_urls": urls})


def test_the_key_is_not_shown() -> None:
    assert "hush" not in repr(RetrievalSettings.model_validate({"encoder_api_key": "hush"}))
