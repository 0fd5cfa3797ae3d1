"""The version that is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """ "unknown" in a checkout that was not installed."""
    try:
        return version("arrowhead")
    except PackageNotFoundError:
        return "unknown"
