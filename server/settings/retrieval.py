"""Define the settings of encoders, indices and namespaces."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from server.settings.base import COMMA_LIST, SettingsGroup, is_unencrypted_to_public, web_address

_NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)


class GraphSettings(SettingsGroup):
    """Hold the settings of the graph that answers and of SPOKE."""

    name: str = Field(default="open", pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="graph that answers")
    data_dir: Path | None = Field(default=None, description="folder of the graphs; unset: XDG data folder")
    spoke_url: str | None = Field(default=None, description="SPOKE's address, as https://spoke.rbvi.ucsf.edu")

    @field_validator("spoke_url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        """Remove the path of the service, which is the same everywhere."""
        if not url:
            return None
        parts = web_address(url)
        path = parts.path.rstrip("/").removesuffix("/api/v1")
        return urlunsplit((parts.scheme, parts.netloc, path, "", ""))

    @property
    def spoke_host(self) -> str | None:
        return urlsplit(self.spoke_url).hostname if self.spoke_url else None


class RetrievalSettings(SettingsGroup):
    """Configure encoders, indices and namespaces."""

    encoders: Annotated[tuple[str, ...], NoDecode, COMMA_LIST] = Field(
        default=("minilm",),
        min_length=1,
        description="encoders that may be used, first that of new namespaces: names, hub ids, directories; a,b",
    )
    encoder_urls: Annotated[tuple[str, ...], NoDecode, COMMA_LIST] = Field(
        default=(), description="encoders whose vectors a server computes (vLLM); name=url,name=url"
    )
    encoder_api_key: SecretStr | None = Field(default=None, description="key of these servers (vllm serve --api-key)")
    cross_encoder: str | None = Field(default=None, description="re-ranks hits and answers /v1/rerank")
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$", description="of encoders and verifier")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    allow_download: bool = Field(default=False, description="fetch hub ids that are not here yet")
    data_dir: Path | None = Field(default=None, description="folder of the namespaces; unset: XDG data folder")
    storage: Literal["files", "postgresql"] = Field(
        default="files", description="of namespaces; postgresql: all servers share those in the database of state.url"
    )
    backend: Literal["auto", "faiss", "faiss-gpu", "torch"] = Field(default="auto", description="of vector indices")
    growth_gib: float | None = Field(
        default=None, ge=0, description="of the card that stay free for new vectors; unset: by what is there"
    )
    allow_changes: bool | None = Field(
        default=None, description="namespaces may be changed over HTTP; unset: on a loopback bind only"
    )
    max_upload_bytes: int = Field(default=268_435_456, ge=1024, description="largest file that is sent to a namespace")
    folders: Annotated[tuple[str, ...], NoDecode, COMMA_LIST] = Field(
        default=(), description="folders of this server that namespaces follow; name=/path,name=/path"
    )
    folders_ocr: str = Field(
        default="",
        pattern=r"^([A-Za-z_]{3,20}(\+[A-Za-z_]{3,20}){0,4})?$",
        description="languages of scanned pages in them, as tesseract names them (eng+deu); empty: not read",
    )

    @field_validator("folders")
    @classmethod
    def _named_folders(cls, pairs: tuple[str, ...]) -> tuple[str, ...]:
        split = [one.partition("=") for one in pairs]
        for one, (name, _, path) in zip(pairs, split, strict=True):
            if not _NAMESPACE.fullmatch(name) or not path.startswith(("/", "~/")):
                raise ValueError(f"{one!r} is not name=/path, with a name of small letters, digits, _ and -")
        for values in ([name for name, _, _ in split], [path for _, _, path in split]):
            if len(set(values)) < len(values):
                raise ValueError("a namespace, or a folder, is there twice")
        return pairs

    @property
    def followed(self) -> dict[str, Path]:
        """Return the folder that each namespace follows, by its name."""
        return {name: Path(path) for name, _, path in (one.partition("=") for one in self.folders)}

    @field_validator("encoder_urls")
    @classmethod
    def _named_addresses(cls, pairs: tuple[str, ...]) -> tuple[str, ...]:
        split = [one.rpartition("=") for one in pairs]
        for one, (name, _, url) in zip(pairs, split, strict=True):
            if not name or web_address(url).path not in ("", "/"):
                raise ValueError(
                    f"{one!r} is not name=url, with an address without a path, as minilm=https://gpu-1:8000"
                )
        for values in ([name for name, _, _ in split], [url.rstrip("/") for _, _, url in split]):
            if len(set(values)) < len(values):
                raise ValueError("an encoder, or an address, is there twice")
        return pairs

    @model_validator(mode="after")
    def _urls_fit_encoders(self) -> Self:
        for name, url in self.remote_encoders.items():
            if name not in self.encoder_names:
                raise ValueError(f"encoder_urls: {name!r} is not among retrieval.encoders")
            if name == "hashing":
                raise ValueError("encoder_urls: 'hashing' has no weights, so no server computes its vectors")
            if is_unencrypted_to_public(url):
                raise ValueError(f"encoder_urls: {url} would send passages unencrypted to a public address: use https")
        return self

    @property
    def remote_encoders(self) -> dict[str, str]:
        """Return the address of the server of each remote encoder by the encoder's name."""
        pairs = (one.rpartition("=") for one in self.encoder_urls)
        return {name: url.rstrip("/") for name, _, url in pairs}

    @property
    def encoder(self) -> str:
        """Return the encoder of new namespaces."""
        return self.encoders[0]

    @property
    def encoder_names(self) -> tuple[str, ...]:
        """Return each encoder that may be used once, that of new namespaces first."""
        return tuple(dict.fromkeys(self.encoders))

    @property
    def local_encoders(self) -> tuple[str, ...]:
        """Return the encoders whose vectors this process computes."""
        return tuple(name for name in self.encoder_names if name not in self.remote_encoders)
