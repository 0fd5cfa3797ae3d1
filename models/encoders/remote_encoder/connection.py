"""Post requests to the server of an encoder from many threads, and repeat them where that may help.

Messages hold the address and the status, never what was sent or received.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError
from typing import Any, Final

from models.encoders.base import RemoteEncoderOptions
from models.engines.remote_engine.connection import Connection as AsyncConnection
from models.engines.remote_engine.connection import ServerKind
from models.engines.remote_engine.wire import AddressNotPrivate, ReplicaLost, ReplicaSilent
from models.errors import ENCODER_UNAVAILABLE, ENCODER_UNUSABLE, ModelError, ModelNotFound

_ROUTE: Final = "/v1/embeddings"
# Waits between the tries of one request: long enough for a restarted process to listen again, short for a query.
_PAUSES_S: Final = (0.2, 0.6, 1.5)
# The server is starting, overloaded or ending, or a proxy before it has none at this moment.
_RETRIED: Final = (429, 500, 502, 503, 504)
_ENCODER: Final = ServerKind("retrieval.encoder_urls", "passages and questions")
_REFUSED: Final = {
    400: "it refuses the token ids: its context must be as long as the encoder's, and its route must take token ids",
    401: "it requires another key: retrieval.encoder_api_key",
    403: "it requires another key: retrieval.encoder_api_key",
    404: f"it has no {_ROUTE}: start it with vllm serve FOLDER --runner pooling",
}


class Connection:
    """Reach one server from many threads, over an event loop in a thread of its own.

    An address with http must be private, which is checked for each connection.
    """

    def __init__(self, remote: RemoteEncoderOptions) -> None:
        self._reply_s = remote.reply_s
        self._connection = AsyncConnection(remote, _ENCODER)
        self.url = self._connection.url
        self._lock = threading.Lock()
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        # A daemon: a program that does not close the encoder must end nevertheless.
        threading.Thread(target=self._loop.run_forever, name="remote-encoder", daemon=True).start()

    def close(self) -> None:
        """Close all connections; requests of other threads end with an error."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)

    def post(self, body: Mapping[str, Any]) -> bytes:
        """Return the body of the reply to ``body``.

        Raises:
            ModelError: the server does not answer, or reports that it cannot now, at the last try; or this
                connection is closed.
            ModelNotFound: it refuses the request, or must not be asked, as its address is not private.
        """
        closed = ModelError(f"the connection to the encoder server {self.url} is closed", ENCODER_UNAVAILABLE)
        with self._lock:
            if self._is_closed:
                raise closed
            reply = asyncio.run_coroutine_threadsafe(self._post(body), self._loop)
        try:
            return reply.result()
        except CancelledError as error:
            raise closed from error

    async def _post(self, body: Mapping[str, Any]) -> bytes:
        failure = ""
        for pause in (*_PAUSES_S, 0.0):
            try:
                reply = await self._connection.ask(_ROUTE, self._reply_s, body)
            except AddressNotPrivate as error:
                raise ModelNotFound(str(error), ENCODER_UNUSABLE) from error
            except ReplicaLost as lost:
                failure = str(lost)
                if isinstance(lost, ReplicaSilent):
                    break  # it had its time: another try would only double the wait
            else:
                if reply.status == 200:
                    return reply.body
                failure = f"status {reply.status}"
                if reply.status not in _RETRIED:
                    raise ModelNotFound(
                        f"the encoder server {self.url} answered with {reply.status}: "
                        f"{_REFUSED.get(reply.status, 'see its log')}",
                        ENCODER_UNUSABLE,
                    )
            await asyncio.sleep(pause)
        raise ModelError(f"the encoder server {self.url} does not answer ({failure})", ENCODER_UNAVAILABLE)

    async def _end(self) -> None:
        requests = asyncio.all_tasks() - {asyncio.current_task()}
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        await self._connection.close()
