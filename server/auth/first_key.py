"""Admit the person who makes the first key of a server that other machines reach and that has no key yet.

Until then every route but the page answers 401. The person proves to be at the machine by a code that the server prints
when it starts, which is not kept anywhere, ends with the first key, however that is made, and after ten wrong tries.
"""

from __future__ import annotations

import base64
import hmac
import logging
import secrets
from typing import Final

from server.auth.authentication import ApiKeyLookup
from server.errors import FIRST_KEY_NEEDED, SETUP_REFUSED, RequestError
from server.settings.server import ServerSettings, is_loopback

log = logging.getLogger(__name__)
MAX_TRIES: Final = 10
_CODE_BYTES: Final = 10
_GROUP: Final = 4
# Base32 has none of these digits; a person may read a letter as one of them.
_LIKE: Final = str.maketrans("018", "OIB", " -")
_OTHERWISE: Final = "or make a key with `arrowhead key create` on its machine"


class FirstKey:
    """Check the code for the first key; used from one event loop.

    ``code`` is of 80 bits, in groups for reading.
    """

    def __init__(self, key_lookup: ApiKeyLookup) -> None:
        self._key_lookup = key_lookup
        letters = base64.b32encode(secrets.token_bytes(_CODE_BYTES)).decode()
        self.code = "-".join(letters[at : at + _GROUP] for at in range(0, len(letters), _GROUP))
        self._tries_left = MAX_TRIES
        self._is_over = False

    @property
    def invitation(self) -> str:
        """Return the line that the server prints when it starts."""
        return f"no key yet: open this server's page and make the first one with the code {self.code}"

    @property
    def is_needed(self) -> bool:
        """Return whether the server still has no key; once false, it remains false."""
        self._is_over = self._is_over or bool(self._key_lookup.ids)
        return not self._is_over

    @property
    def is_open(self) -> bool:
        """Return whether a code is accepted now."""
        return self.is_needed and self._tries_left > 0

    def refusal(self) -> RequestError:
        """Return the error of a request that needs a key while there is none."""
        if self.is_open:
            todo = f"open its page and give the code that it printed when it started, {_OTHERWISE}"
        else:
            todo = f"its code has ended after {MAX_TRIES} wrong tries: start it again for another one, {_OTHERWISE}"
        return RequestError(f"this server has no key yet: {todo}", FIRST_KEY_NEEDED)

    def claim(self, code: str) -> None:
        """Take the code, so that no other request has it too; ``release`` gives it back.

        The time of the comparison does not depend on what is right in ``code``.

        Raises:
            RequestError: the code is wrong, is taken or has ended.
        """
        if not self.is_open:
            raise RequestError("there is a key, or the code has ended", SETUP_REFUSED)
        given = code.upper().translate(_LIKE).encode()
        if not hmac.compare_digest(given, self.code.replace("-", "").encode()):
            self._tries_left -= 1
            log.warning("a wrong code for the first key was given: tries_left=%d", self._tries_left)
            raise RequestError(f"code: it is wrong; {self._tries_left} tries are left", SETUP_REFUSED, param="code")
        self._is_over = True

    def release(self) -> None:
        """Accept the code again, as no key was made with it."""
        self._is_over = False


def first_key(settings: ServerSettings, key_lookup: ApiKeyLookup) -> FirstKey | None:
    """Return the check for the first key, None where the server has keys or no other machine reaches it."""
    return None if is_loopback(settings.host) or key_lookup.ids else FirstKey(key_lookup)
