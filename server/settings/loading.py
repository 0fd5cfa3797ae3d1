"""Load the settings from flags, environment and file, and say where the data that they name lie on disk.

Each mistake is reported in one readable line. ``server.settings.schema`` defines the fields.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsConfigDict, SettingsError

from models.errors import ArrowheadError, Fault
from server.settings.schema import Settings

ENV_PREFIX = "ARROWHEAD_"
# What serves in place of settings of earlier versions.
_INSTEAD: Final = {
    "model.restarts": "a dead engine is brought back three times, then the process ends with status 1",
    "model.urls": "there is one address now, model.url: of a vLLM server, or of a router before several",
    "ncbi.retries": "ncbi.total_timeout_s says how long a call may take with its retries, three at most",
    "retrieval.encoder": "name it first in retrieval.encoders",
    "server.body_timeout_s": "server.slow_client_s is the time for requests and for replies",
    "server.keepalive_s": "a silent stream carries a comment every 10 s",
    "server.organisation": "write server.cache_salt as organisation:NAME",
    "server.slow_reader_s": "server.slow_client_s is the time for requests and for replies",
    "verifier.device": "retrieval.device is of encoders and verifier",
}


class SettingsInvalid(ArrowheadError):
    """Signal invalid settings, with one line for each mistake: variable, field, cause."""

    fault = Fault(
        500,
        "settings_invalid",
        "`arrowhead serve --help` lists the flags; every setting has a variable ARROWHEAD_GROUP__FIELD",
    )


def config_file(flag: Path | None = None) -> Path | None:
    """Return the TOML file to read, None for none.

    The flag takes precedence over ``ARROWHEAD_CONFIG``, and that over the file in the XDG folder, which may be absent.

    Raises:
        SettingsInvalid: the file of the flag or variable does not exist.
    """
    path = flag or (Path(os.environ["ARROWHEAD_CONFIG"]) if os.environ.get("ARROWHEAD_CONFIG") else None)
    if path is not None:
        if not path.is_file():
            raise SettingsInvalid(f"ARROWHEAD_CONFIG (--config): no file {path}")
        return path
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    default = home / "arrowhead" / "config.toml"
    return default if default.is_file() else None


def load_settings(flags: Mapping[str, Mapping[str, Any]] | None = None, config: Path | None = None) -> Settings:
    """Load and validate the settings.

    ``flags``: group -> field -> value, only those given on the command line.

    Raises:
        SettingsInvalid: names each wrong variable.
    """
    path = config_file(config)
    _refuse_unknown_variables()
    _refuse_broken_file(path)

    class _FromFile(Settings):
        model_config = SettingsConfigDict(toml_file=path)

    try:
        values: dict[str, Any] = {group: dict(fields) for group, fields in (flags or {}).items()}
        return _FromFile(**values)
    except ValidationError as error:
        raise SettingsInvalid("\n".join(_line(detail) for detail in error.errors(include_url=False))) from None
    except SettingsError as error:
        raise SettingsInvalid(f"{_names_in(str(error))}: not readable; groups are set field by field") from None


def variable_name(*path: str) -> str:
    """Return the environment variable of a field, e.g. ``ARROWHEAD_NCBI__EMAIL``."""
    return ENV_PREFIX + "__".join(part.upper() for part in path)


def _line(detail: ErrorDetails) -> str:
    path = [str(part) for part in detail["loc"] if not isinstance(part, int)]
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "value_error" and len(path) < 2:
        # A check over several fields names its field itself: "group.field: what is wrong".
        field, _, rest = message.partition(": ")
        if rest:
            path, message = [*path, *field.split(".")], rest
    if detail["type"] == "extra_forbidden":
        message = _INSTEAD.get(".".join(path), "there is no such setting")
    return f"{variable_name(*path)} ({'.'.join(path)}): {message}"


def _refuse_unknown_variables() -> None:
    """Refuse environment variables with an unknown group, which pydantic would silently ignore."""
    groups = {name.upper() for name in Settings.model_fields}
    for name in os.environ:
        if not name.startswith(ENV_PREFIX) or "__" not in name:
            continue
        group = name.removeprefix(ENV_PREFIX).split("__", 1)[0]
        if group.upper() not in groups:
            raise SettingsInvalid(
                f"{name}: there is no group {group.lower()}; groups: {', '.join(sorted(groups)).lower()}"
            )


def _refuse_broken_file(path: Path | None) -> None:
    if path is None:
        return
    try:
        tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsInvalid(f"ARROWHEAD_CONFIG (--config): {path}: {error}") from None


def _names_in(text: str) -> str:
    groups = [group for group in Settings.model_fields if f'"{group}"' in text]
    return ", ".join(variable_name(group) for group in groups) or "settings"


def xdg_dir(kind: str) -> Path:
    """Return our folder below XDG's ``data``, ``cache`` or ``state`` folder, without creating it."""
    fallback = {"data": ".local/share", "cache": ".cache", "state": ".local/state"}[kind]
    return Path(os.environ.get(f"XDG_{kind.upper()}_HOME") or Path.home() / fallback) / "arrowhead"


def gateway_dir(settings: Settings) -> Path:
    return settings.gateway.data_dir or xdg_dir("data") / "gateway"


def audit_path(settings: Settings) -> Path:
    return settings.audit.path or xdg_dir("state") / "audit.jsonl"


def graphs_dir(settings: Settings) -> Path:
    return settings.graph.data_dir or xdg_dir("data") / "graphs"


def keys_file(settings: Settings) -> Path:
    return settings.server.keys_file or xdg_dir("data") / "keys.json"


def models_dir(settings: Settings) -> Path:
    return settings.model.data_dir or xdg_dir("data") / "models"


def namespaces_dir(settings: Settings) -> Path:
    return settings.retrieval.data_dir or xdg_dir("data") / "namespaces"
