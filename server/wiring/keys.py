"""Choose the store of API keys, and open the keyring of a server."""

from __future__ import annotations

from server.auth.api_keys import Keyring
from server.auth.file_key_store import FileKeyStore
from server.auth.key_store import KeyStore
from server.settings.paths import keys_file
from server.settings.schema import Settings


def open_key_store(settings: Settings) -> KeyStore:
    return FileKeyStore(keys_file(settings))


def open_keyring(settings: Settings) -> Keyring:
    """Open the keyring of the settings' keys and their key store.

    Raises:
        KeyStoreError: the store exists and cannot be read.
    """
    secrets = [key.get_secret_value() for key in settings.server.api_keys]
    return Keyring(secrets, open_key_store(settings))
