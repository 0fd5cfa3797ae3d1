"""A remote encoder: the local one's vectors over HTTP, and what happens when the server fails or is another one."""

from __future__ import annotations

import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from bert_models import TEXTS, build_medcpt, build_sentence_folder
from pooling_server import OPTIONS, Failing, Model, PoolingServer, pooling_server

from models.encoders.base import Encoder, Floats, PassageText, RemoteEncoderOptions, TokenEncoder, lacks_tokens
from models.encoders.registry import create_encoder, create_remote_encoder
from models.encoders.remote_encoder import connection
from models.encoders.remote_encoder.encoder import RemoteEncoder
from models.encoders.remote_encoder.references import probe_rows
from models.encoders.resolve import resolve_encoder
from models.errors import ENCODER_UNAVAILABLE, ENCODER_UNUSABLE, ModelError, ModelNotFound

pytestmark = pytest.mark.weights
PASSAGES = [PassageText(f"Title {number % 5}", text) for number, text in enumerate(TEXTS * 5)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small random model that pools by the mean and normalises; its texts have at most 128 tokens."""
    return str(build_sentence_folder(tmp_path_factory.mktemp("encoders") / "small"))


@pytest.fixture(scope="module")
def local(folder: str) -> Encoder:
    return create_encoder(folder, OPTIONS)


@pytest.fixture(scope="module")
def model(folder: str) -> Model:
    return Model(resolve_encoder(folder, OPTIONS))


@pytest.fixture(scope="module")
def remote(folder: str, probes: Floats) -> Callable[..., RemoteEncoder]:
    """Make an encoder of a server, with options that are changed by name."""

    def made(url: str, **changed: object) -> RemoteEncoder:
        settings = replace(options(url), **changed)  # type: ignore[arg-type]
        return RemoteEncoder(resolve_encoder(folder, OPTIONS), settings, lambda: probes)

    return made


@pytest.fixture(scope="module")
def probes(local: Encoder) -> Floats:
    return probe_rows(local)


@pytest.fixture
def server(model: Model) -> Iterator[PoolingServer]:
    with pooling_server(model) as running:
        yield running


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PAUSES_S", (0.01, 0.05, 0.1))


def options(url: str, folder: Path = Path("/nowhere")) -> RemoteEncoderOptions:
    return RemoteEncoderOptions(url=url, references=folder, reply_s=120.0)


def test_the_vectors_and_the_fingerprint_are_the_local_ones(
    server: PoolingServer, local: Encoder, remote: Callable[..., RemoteEncoder]
) -> None:
    """In many requests, each of bounded size and with the probe text more; the order of the reply does not count."""
    server.failing.backwards = True
    encoder = remote(server.url)

    np.testing.assert_allclose(encoder.encode_passages(PASSAGES), local.encode_passages(PASSAGES), atol=1e-5)
    np.testing.assert_allclose(encoder.encode_queries(TEXTS), local.encode_queries(TEXTS), atol=1e-5)
    assert encoder.fingerprint == local.fingerprint
    assert encoder.count_query_tokens(TEXTS[0]) == local.count_query_tokens(TEXTS[0])
    assert all(len(body["input"]) <= 32 for body in server.bodies)
    assert all("model" not in body for body in server.bodies)


def test_requests_of_one_call_run_side_by_side(server: PoolingServer, remote: Callable[..., RemoteEncoder]) -> None:
    """Up to the bound, and no more."""
    encoder = remote(server.url)
    encoder.check()
    server.failing.silent_s = 0.05

    encoder.encode_passages(PASSAGES)

    assert 2 <= server.busiest <= 4


def test_floats_are_read_too(server: PoolingServer, local: Encoder, remote: Callable[..., RemoteEncoder]) -> None:
    server.failing.floats = True

    found = remote(server.url).encode_queries(["aspirin"])

    np.testing.assert_allclose(found, local.encode_queries(["aspirin"]), atol=1e-5)


def test_it_has_no_token_vectors_and_says_so(
    server: PoolingServer, local: Encoder, remote: Callable[..., RemoteEncoder]
) -> None:
    encoder = remote(server.url)

    assert not isinstance(encoder, TokenEncoder)
    assert lacks_tokens(encoder)
    assert not lacks_tokens(local)
    assert not lacks_tokens(create_encoder("hashing"))


def test_vectors_that_are_not_normalised_keep_their_length(tmp_path: Path) -> None:
    """The request says so; a server that normalises all the same is refused."""
    folder = build_sentence_folder(tmp_path / "model", similarity_fn_name="euclidean")
    ours = create_encoder(str(folder), OPTIONS)
    known = probe_rows(ours)
    with pooling_server(folder) as running:
        resolved = resolve_encoder(str(folder), OPTIONS)
        found = RemoteEncoder(resolved, options(running.url), lambda: known).encode_queries(["aspirin in stroke"])
        running.failing.reencodes = True
        other = RemoteEncoder(resolved, options(running.url), lambda: known)
        with pytest.raises(ModelNotFound, match="lengths differ", check=ENCODER_UNUSABLE.is_of):
            other.encode_queries(["aspirin in stroke"])

    np.testing.assert_allclose(found, ours.encode_queries(["aspirin in stroke"]), rtol=1e-4, atol=1e-4)
    assert running.bodies[0]["use_activation"] is False


def test_a_server_that_encodes_the_ids_again_gives_the_same_vectors(
    server: PoolingServer, local: Encoder, remote: Callable[..., RemoteEncoder]
) -> None:
    """As text-embeddings-inference does: it decodes ids to text, which for WordPiece gives the same ids again."""
    server.failing = Failing(reencodes=True, floats=True)

    found = remote(server.url).encode_passages(PASSAGES)

    np.testing.assert_allclose(found, local.encode_passages(PASSAGES), atol=1e-5)


def test_another_model_is_refused(server: PoolingServer, remote: Callable[..., RemoteEncoder]) -> None:
    """Also one of the same width; the message has address, encoder, cosine and remedy."""
    server.failing.turned = True

    with pytest.raises(
        ModelNotFound,
        match=r"does not compute the vectors of small: .* lowest cosine .*Start",
        check=ENCODER_UNUSABLE.is_of,
    ):
        remote(server.url).encode_passages(PASSAGES[:1])


def test_a_server_swapped_in_mid_life_is_noticed_at_the_next_reply(
    server: PoolingServer, remote: Callable[..., RemoteEncoder]
) -> None:
    """No connection was lost and no hour has gone by: the probe text of the request itself tells."""
    encoder = remote(server.url)
    encoder.encode_queries(["aspirin"])
    server.failing.turned = True

    with pytest.raises(ModelNotFound, match="does not compute the vectors of small", check=ENCODER_UNUSABLE.is_of):
        encoder.encode_passages(PASSAGES)
    server.failing.turned = False
    assert encoder.encode_queries(["aspirin"]).shape == (1, 32)


def test_all_probe_texts_are_compared_once_and_again_after_a_refusal(
    server: PoolingServer, remote: Callable[..., RemoteEncoder]
) -> None:
    encoder = remote(server.url)
    encoder.encode_queries(["aspirin"])
    assert len(server.bodies) == 2
    encoder.encode_queries(["aspirin"])
    assert len(server.bodies) == 3
    server.failing.turned = True
    with pytest.raises(ModelNotFound, check=ENCODER_UNUSABLE.is_of):
        encoder.encode_queries(["aspirin"])
    server.failing.turned = False
    before = len(server.bodies)
    encoder.encode_queries(["aspirin"])
    assert len(server.bodies) == before + 2


@pytest.mark.parametrize(
    ("failing", "message"),
    [
        (Failing(one_less=True), "vectors for"),
        (Failing(width=31), "vectors of 31 numbers and the encoder 32"),
        (Failing(not_finite=True), "not finite"),
        (Failing(statuses=[400]), "answered with 400: it refuses the token ids"),
        (Failing(key="secret"), "retrieval.encoder_api_key"),
        (Failing(statuses=[404]), "--runner pooling"),
        (Failing(statuses=[413]), "see its log"),
    ],
)
def test_wrong_replies_are_refused(
    server: PoolingServer, remote: Callable[..., RemoteEncoder], failing: Failing, message: str
) -> None:
    server.failing = failing

    with pytest.raises(ModelNotFound, match=message, check=ENCODER_UNUSABLE.is_of):
        remote(server.url).encode_queries(["aspirin"])


def test_the_key_is_sent_and_never_shown(server: PoolingServer, remote: Callable[..., RemoteEncoder]) -> None:
    server.failing.key = "secret"
    encoder = remote(server.url, api_key="secret")

    assert encoder.encode_queries(["aspirin"]).shape == (1, 32)
    assert "secret" not in repr(replace(options(server.url), api_key="secret"))


def test_a_busy_server_is_asked_again(server: PoolingServer, remote: Callable[..., RemoteEncoder]) -> None:
    server.failing.statuses = [503, 429, 503]

    assert remote(server.url).encode_queries(["aspirin"]).shape == (1, 32)


@pytest.mark.parametrize(
    ("failing", "reply_s", "tries"),
    [(Failing(statuses=[503] * 9), 30.0, 4), (Failing(drops=True), 30.0, 4), (Failing(silent_s=1.0), 0.2, 1)],
)
def test_a_server_that_does_not_answer_is_named(
    server: PoolingServer, remote: Callable[..., RemoteEncoder], failing: Failing, reply_s: float, tries: int
) -> None:
    """A slow one costs its time once, not at each try."""
    server.failing = failing

    with pytest.raises(ModelError, match=server.url, check=ENCODER_UNAVAILABLE.is_of):
        remote(server.url, reply_s=reply_s).encode_queries(["aspirin"])

    assert len(server.bodies) == tries


def test_a_dead_server_is_named_and_comes_back(
    model: Model, local: Encoder, remote: Callable[..., RemoteEncoder]
) -> None:
    with pooling_server(model) as running:
        encoder = remote(running.url)
        encoder.encode_queries(["aspirin"])
    with pytest.raises(ModelError, match=f"{running.url} does not answer", check=ENCODER_UNAVAILABLE.is_of):
        encoder.encode_queries(["aspirin"])
    with pooling_server(model, int(running.url.rpartition(":")[2])):
        np.testing.assert_allclose(encoder.encode_queries(["aspirin"]), local.encode_queries(["aspirin"]), atol=1e-5)


@pytest.mark.parametrize("other", [False, True])
def test_a_server_that_dies_in_the_middle_and_comes_back(
    model: Model, local: Encoder, remote: Callable[..., RemoteEncoder], monkeypatch: pytest.MonkeyPatch, other: bool
) -> None:
    """The same one loses no request of the call; one with other weights is refused."""
    monkeypatch.setattr(connection, "_PAUSES_S", (0.2, 0.5, 2.0))
    with ExitStack() as first, ExitStack() as second:
        running = first.enter_context(pooling_server(model))
        encoder = remote(running.url)

        def come_back() -> None:
            again = second.enter_context(pooling_server(model, int(running.url.rpartition(":")[2])))
            again.failing.turned = other

        def die(done: int, total: int) -> None:
            first.close()
            if not timer.is_alive() and not timer.finished.is_set():
                timer.start()

        timer = threading.Timer(0.3, come_back)
        if other:
            with pytest.raises(
                ModelNotFound, match="does not compute the vectors of small", check=ENCODER_UNUSABLE.is_of
            ):
                encoder.encode_passages(PASSAGES * 8, progress=die)
        else:
            found = encoder.encode_passages(PASSAGES * 8, progress=die)
            np.testing.assert_allclose(found, local.encode_passages(PASSAGES * 8), atol=1e-5)
        timer.join()


def test_bfloat16_vectors_are_taken_and_those_further_off_are_not(
    server: PoolingServer, local: Encoder, remote: Callable[..., RemoteEncoder]
) -> None:
    """Cosines of 0.99999 and of 0.998: the refusal has the second one."""
    server.failing.bfloat16 = True
    found = remote(server.url).encode_queries(TEXTS)
    assert (found * local.encode_queries(TEXTS)).sum(axis=1).min() > 0.9999

    server.failing = Failing(tilt=0.0634)
    with pytest.raises(
        ModelNotFound, match=r"lowest cosine with the local ones is 0\.9980", check=ENCODER_UNUSABLE.is_of
    ):
        remote(server.url).encode_queries(TEXTS)


def test_a_closed_encoder_sends_nothing_more(server: PoolingServer, remote: Callable[..., RemoteEncoder]) -> None:
    """Neither a new request nor another try of one that waits for its next."""
    encoder = remote(server.url)
    encoder.encode_queries(["aspirin"])
    encoder.close()
    before = len(server.bodies)
    with pytest.raises(ModelError, match="is closed", check=ENCODER_UNAVAILABLE.is_of):
        encoder.encode_queries(["aspirin"])
    assert len(server.bodies) == before

    waiting = remote(server.url)
    server.failing.statuses = [503] * 9
    with patch.object(connection, "_PAUSES_S", (60.0,)), ThreadPoolExecutor(1) as pool:
        call = pool.submit(waiting.encode_queries, ["aspirin"])
        while len(server.bodies) == before:
            time.sleep(0.01)
        waiting.close()
        with pytest.raises(ModelError, match="is closed", check=ENCODER_UNAVAILABLE.is_of):
            call.result(30)


def test_an_error_ends_the_other_requests_of_a_call(
    server: PoolingServer, remote: Callable[..., RemoteEncoder]
) -> None:
    """And what ``progress`` raises is passed on."""
    encoder = remote(server.url)
    encoder.check()

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encoder.encode_passages(PASSAGES, progress=stop)
    server.failing.statuses = [200, 400]
    with pytest.raises(ModelNotFound, check=ENCODER_UNUSABLE.is_of):
        encoder.encode_passages(PASSAGES)


def test_the_first_calls_of_many_threads_check_once(
    server: PoolingServer, folder: str, local: Encoder, probes: Floats
) -> None:
    calls = []

    def counted() -> Floats:
        calls.append(threading.get_ident())
        return probes

    encoder = RemoteEncoder(resolve_encoder(folder, OPTIONS), options(server.url), counted)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: encoder.encode_queries(["aspirin"]), range(8)))

    assert len(calls) == 1
    for one in found:
        np.testing.assert_allclose(one, local.encode_queries(["aspirin"]), atol=1e-5)


def test_encoders_of_pairs_and_of_two_models_are_refused(tmp_path: Path) -> None:
    folder = str(build_medcpt(tmp_path))

    with pytest.raises(
        ModelNotFound, match=r"medcpt reads title and text as a pair.*encoder_urls", check=ENCODER_UNUSABLE.is_of
    ):
        create_remote_encoder(folder, options("http://127.0.0.1:9"))


def test_an_encoder_without_weights_is_refused() -> None:
    with pytest.raises(ModelNotFound, match="hashing has no weights", check=ENCODER_UNUSABLE.is_of):
        create_remote_encoder("hashing", options("http://127.0.0.1:9"))


def test_a_name_is_looked_up_and_checked_for_each_connection(
    server: PoolingServer, remote: Callable[..., RemoteEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not known, then that of a public address, then of private ones, at the first of which nothing listens."""
    known = {"127.0.0.1": ["127.0.0.1"], "127.0.0.2": ["127.0.0.2"]}
    look_up = socket.getaddrinfo

    def addresses(host: str, port: int, *rest: Any, **kinds: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [entry for address in known[host] for entry in look_up(address, port, *rest, **kinds)]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    encoder = remote(server.url.replace("127.0.0.1", "encoders-1"))
    with pytest.raises(ModelError, match="does not answer", check=ENCODER_UNAVAILABLE.is_of):
        encoder.encode_queries(["IL-6"])
    known["encoders-1"] = ["127.0.0.1", "8.8.8.8"]
    with pytest.raises(ModelNotFound, match=r"unencrypted to 8\.8\.8\.8.*use https", check=ENCODER_UNUSABLE.is_of):
        encoder.encode_queries(["IL-6"])
    known["encoders-1"] = ["127.0.0.2", "127.0.0.1"]
    assert encoder.encode_queries(["IL-6"]).shape == (1, encoder.dim)
    encoder.close()


@pytest.mark.server
def test_local_vectors_of_the_probe_texts_are_made_once_for_the_owner_alone(
    server: PoolingServer, folder: str, tmp_path: Path, probes: Floats
) -> None:
    """In a process of its own."""
    cache = tmp_path / "cache" / "encoders"
    create_remote_encoder(folder, options(server.url, cache)).encode_queries(["aspirin"])
    (path,) = cache.iterdir()
    np.testing.assert_allclose(np.load(path), probes, atol=1e-5)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    before = path.stat().st_mtime_ns

    create_remote_encoder(folder, options(server.url, cache)).encode_queries(["aspirin"])

    assert path.stat().st_mtime_ns == before


@pytest.mark.server
def test_no_torch_is_imported(server: PoolingServer, folder: str, tmp_path: Path) -> None:
    """Neither to resolve and tokenise nor to encode."""
    program = (
        "import sys; from pathlib import Path; from models.encoders.base import RemoteEncoderOptions as O; "
        "from models.encoders.registry import create_remote_encoder as c; "
        f"e = c({folder!r}, O(url={server.url!r}, references=Path({str(tmp_path)!r}))); e.encode_queries(['a']); "
        "assert not {'torch', 'transformers'} & set(sys.modules), 'imported'"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)

    assert done.returncode == 0, done.stderr
