"""Close the files and folders of an earlier start to other users of the machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from retrieval.storage.private_files import close_to_others
from server.settings.loading import xdg_dir
from server.settings.paths import audit_path, gateway_dir, graphs_dir, keys_file, namespaces_dir
from server.settings.schema import Settings
from server.traces import FILE_NAME

log = logging.getLogger(__name__)


def protect_data(settings: Settings) -> None:
    """Take rights that others have on this server's data, e.g. from before it was run with a strict umask.

    A folder that the settings name for single files (``traces.dir``, that of ``audit.path``) may have others beside
    them, so only the server's own files are changed there.
    """
    protect(*_folders(settings), *_files(settings))


def protect(*paths: Path) -> None:
    """Take the rights that others have on these files and folders."""
    for path in paths:
        # The folder of a setting may be a link to another disk.
        if found := close_to_others(path.resolve()):
            log.warning("others had rights on %d files or folders: %s; now the owner alone has", found, path)


def _folders(settings: Settings) -> Iterator[Path]:
    for kind in ("data", "state", "cache"):
        yield xdg_dir(kind)
    yield from (gateway_dir(settings), graphs_dir(settings), namespaces_dir(settings))


def _files(settings: Settings) -> Iterator[Path]:
    names = [audit_path(settings), keys_file(settings)]
    names += [settings.ncbi.cache_path] if settings.ncbi.cache_path else []
    names += [settings.traces.dir / FILE_NAME] if settings.traces.dir else []
    for name in names:
        if name.parent.is_dir():
            # With rotated files, locks, journals and drafts.
            yield from name.parent.glob(f"{name.name}*")
            yield from name.parent.glob(f".{name.name}*")
