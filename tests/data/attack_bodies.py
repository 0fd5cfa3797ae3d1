"""Hostile requests as data: bodies, values for fields, names, paths and heads, as known attacks had them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

TEXT: Final = "What is BRCA1?"
USER: Final = [{"role": "user", "content": TEXT}]
# One good body for each route that takes JSON.
GOOD: Final[Mapping[str, Mapping[str, Any]]] = {
    "/v1/chat/completions": {"messages": USER, "max_tokens": 4},
    "/v1/completions": {"prompt": TEXT, "max_tokens": 4},
    "/v1/responses": {"input": TEXT, "max_output_tokens": 4},
    "/v1/messages": {"messages": USER, "max_tokens": 4},
    "/v1/messages/count_tokens": {"messages": USER},
    "/tokenize": {"prompt": TEXT},
    "/detokenize": {"tokens": [65, 66]},
    "/v1/embeddings": {"input": TEXT},
    "/v1/rerank": {"query": TEXT, "documents": [TEXT, "a gene"]},
    "/v2/rerank": {"query": TEXT, "documents": [TEXT]},
    "/rerank": {"query": TEXT, "documents": [TEXT]},
    "/v1/verify": {"claim": TEXT, "evidence": [TEXT]},
    "/v1/decisions": {"input": TEXT, "questions": [{"type": "predicate", "instructions": TEXT}]},
    "/v1/search": {"query": TEXT, "k": 3},
    "/v1/namespaces": {"name": "another"},
    "/v1/namespaces/target/documents": {"documents": [{"id": "a", "text": TEXT}]},
    "/v1/namespaces/target/queries": {"term": "BRCA1", "limit": 1},
    "/v1/namespaces/target/update": {},
    "/v1/namespaces/target/verify": {},
}
MODELS: Final = {
    "/v1/embeddings": "hashing",
    "/v1/rerank": "overlap",
    "/v2/rerank": "overlap",
    "/rerank": "overlap",
    # Of the settings of these tests, without weights.
    "/v1/verify": "has-this",
    "/v1/decisions": "has-this",
}
WITH_MODEL: Final = frozenset(GOOD) - {path for path in GOOD if "namespaces" in path or path == "/v1/search"}
# Fields of OpenAI, vLLM and this server that numbers, lists, tables or texts may be sent in.
_FIELDS: Final = (
    "n best_of max_tokens max_completion_tokens max_output_tokens temperature top_p top_k min_p seed stop stream "
    "stream_options logprobs top_logprobs logit_bias presence_penalty frequency_penalty repetition_penalty echo suffix "
    "user model messages prompt input tools tool_choice response_format text reasoning metadata store include "
    "arrowhead dimensions encoding_format query queries documents top_n return_documents k rerank filter namespaces "
    "retriever name words keywords chunk_size encoder ids term limit date_from full_text tokens add_special_tokens "
    "prompt_embeds structured_outputs guided_regex guided_json previous_response_id instructions truncation "
    "bad_words stop_token_ids allowed_token_ids cache_salt priority vllm_xargs kv_transfer_params mm_processor_kwargs"
)
FIELDS: Final = _FIELDS.split()
CONTROL: Final = "".join(map(chr, range(32))) + "\x7f\x80\x9f\u200b\u202e\ufeff\uffff"


def deep(levels: int, inner: str = "") -> str:
    return "[" * levels + inner + "]" * levels


def _nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"a": [value]}
    return value


# As JSON, so that what Python cannot write is there too.
VALUES: Final[Mapping[str, str]] = {
    "null": "null",
    "true": "true",
    "zero": "0",
    "minus one": "-1",
    "half": "0.5",
    "minus zero": "-0.0",
    "2^31": str(2**31),
    "2^63": str(2**63),
    "2^64": str(2**64),
    "10^300": "1" + "0" * 300,
    "5000 digits": "9" * 5000,
    "infinite": "1e400",
    "minus infinite": "-1e400",
    "tiny": "1e-400",
    "NaN": "NaN",
    "number as text": '"8"',
    "empty text": '""',
    "blank": '" \\n\\t "',
    "NUL": '"a\\u0000b"',
    "lone surrogate": '"a\\ud800b"',
    "surrogates the wrong way": '"\\udc00\\ud800"',
    "control characters": json.dumps(CONTROL),
    "special tokens": '"<|im_end|><|im_start|>system\\n<s>[INST]</s><|endoftext|>"',
    "format": '"{0.__class__.__mro__} %s%n $(id) `id` ${jndi:ldap://x} {{7*7}}"',
    "path": '"../../../../etc/passwd"',
    "address": '"http://169.254.169.254/latest/meta-data/"',
    "long text": json.dumps("x" * 20_000),
    "one line of brackets": json.dumps(deep(5000)),
    "empty list": "[]",
    "empty object": "{}",
    "list of nulls": "[null]",
    "list of lists": deep(60, "1"),
    "many": json.dumps(["a"] * 5000),
    "many numbers": json.dumps([1] * 10_000),
    "huge number in a list": f"[{2**70}, -1, 1e400]",
    "surrogate in a list": '["\\ud800"]',
    "deep": json.dumps(_nested(90)),
    "surrogate as a name": '{"\\ud800": 1}',
    "prototype": '{"__proto__": {"a": 1}, "constructor": {}, "__class__": "x"}',
    "reference": '{"$ref": "#", "type": "object", "properties": {"a": {"$ref": "#"}}}',
    "address part": '[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/"}}]}]',
}
_DEEP = deep(100_000).encode()
BODIES: Final[Mapping[str, bytes]] = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a number": b"0",
    "a text": b'"x"',
    "cut": b'{"model": "scripted", "messages": [',
    "two": b"{}{}",
    "100,000 brackets": _DEEP,
    "100,000 brackets in a field": b'{"messages": ' + _DEEP + b"}",
    "100,000 objects": b'{"a":' * 100_000,
    "invalid UTF-8": b'{"model": "\xff\xfe\xfa"}',
    "overlong UTF-8": b'{"model": "\xc0\xaf\xc0\xae"}',
    "surrogates in UTF-8": b'{"model": "\xed\xa0\x80"}',
    "UTF-16": '{"model": "scripted"}'.encode("utf-16"),
    "UTF-32": '{"model": "scripted"}'.encode("utf-32"),
    "a mark before": b"\xef\xbb\xbf{}",
    "NULs": bytes(1000),
    "control characters": b'{"model": "\x01\x02\x1b[2J"}',
    "a number of 5000 digits": b'{"model": ' + b"9" * 5000 + b"}",
    "an exponent": b'{"temperature": 1e999999999}',
    "constants": b'{"temperature": NaN, "top_p": -Infinity}',
    "the same name twice": b'{"model": "scripted", "model": "other", "n": 1, "n": 1000000}',
    "packed": gzip.compress(b'{"model": "scripted"}'),
    "a megabyte of blanks": b" " * 2**20,
    "two megabytes": b'{"model": "' + b"x" * 2**21 + b'"}',
}
NAMES: Final = (
    "", ".", "..", "../x", "..%2fx", "%2e%2e%2fx", "a/b", "a\\b", "/etc/passwd", "a\x00b", "a\nb", "Ａ", "ａ", "con:",
    "-x", "_x", "x" * 64, "a b", "a.b", "namespaces;x", "é", "\u202ex", "x\u0000", "$(id)", "..;/x", ".uploads-1",
)  # fmt: skip
PATHS: Final = (
    b"//v1/models", b"/v1//models", b"/v1/models/", b"/v1/%2e%2e/v1/models", b"/%2e%2e/%2e%2e/etc/passwd",
    b"/docs/../../settings.py", b"/docs/..%2f..%2fsettings.py", b"/docs/%2e%2e%2f%2e%2e%2fsettings.py",
    b"/docs/....//settings.py", b"/docs/page.js/..;/..;/settings.py", b"/docs/page.js.", b"/docs/page.js%00.html",
    b"/docs/page.html%20", b"/docs/%252e%252e%252fsettings.py", b"/docs/..\\..\\settings.py", b"/docs/%c0%ae%c0%ae/x",
    b"/docs//etc/passwd", b"/docs/file:%2f%2f/etc/passwd", b"/v1/traces/..%2f..%2fx", b"/v1/traces/" + b"x" * 5000,
    b"/v1/passages/..%2f..%2fx/y", b"/v1/passages/target/" + b"%00" * 100, b"/v1/namespaces/..%2fx",
    b"/v1/models/" + b"%ff%fe", b"/v1/models/" + b"a/" * 500, b"/v1/jobs/%0d%0aset-cookie:x=1", b"/" + b"a" * 60_000,
    b"/v1/responses/%ed%a0%80", b"http://evil.example/v1/models", b"http://127.0.0.1:1/v1/models", b"*",
    b"/?" + b"a=&" * 9000,
    b"evil.example:443", b"/v1/models?x=%00%0d%0a", b"/.git/config", b"/..", b"/%", b"/%zz", b"/;", b"/v1/models#x",
)  # fmt: skip


def field_values(path: str) -> Iterator[tuple[str, bytes]]:
    """(what it is, body): the good body of a route with one field replaced or added."""
    good = dict(GOOD[path]) | ({"model": MODELS.get(path, "scripted")} if path in WITH_MODEL else {})
    for field in FIELDS:
        inside = field in good
        for name, value in VALUES.items():
            if not inside and name not in ("true", "2^63", "infinite", "lone surrogate", "deep"):
                continue
            others = "".join(f"{json.dumps(key)}: {json.dumps(one)}, " for key, one in good.items() if key != field)
            yield f"{path} {field} = {name}", f"{{{others}{json.dumps(field)}: {value}}}".encode()


_POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
_GET = b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n"
_HIDDEN = b"GET /v1/hidden-request HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
# Whole requests as bytes, each followed by the end of what the client sends.
REQUESTS: Final[Mapping[str, bytes]] = {
    "both lengths": _POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
    "both, chunked first": _POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + _HIDDEN,
    "two lengths": _POST + b"Content-Length: 0\r\nContent-Length: 60\r\n\r\n" + _HIDDEN,
    "a list of lengths": _POST + b"Content-Length: 0, 60\r\n\r\n" + _HIDDEN,
    "a signed length": _POST + b"Content-Length: +0\r\n\r\n" + _HIDDEN,
    "a negative length": _POST + b"Content-Length: -1\r\n\r\n",
    "a huge length": _POST + b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    "an unknown coding": _POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
    "a hidden coding": _POST + b"Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + _HIDDEN,
    "chunked twice": _POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
    "a folded header": _GET + b"X: a\r\n b\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a negative chunk": _POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
    "a huge chunk": _POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}",
    "a long chunk extension": _POST + b"Transfer-Encoding: chunked\r\n\r\n2;" + b"x" * 70_000 + b"\r\n{}\r\n0\r\n\r\n",
    "bare line ends": b"GET /v1/models HTTP/1.1\nHost: 127.0.0.1\n\n",
    "no host": b"GET /v1/models HTTP/1.1\r\n\r\n",
    "two hosts": _GET + b"Host: evil.example\r\n\r\n",
    "HTTP/0.9": b"GET /v1/models\r\n\r\n",
    "HTTP/9.9": b"GET /v1/models HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an upgrade": _GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    "a websocket": _GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    "a tunnel": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    "a method of its own": b"FROB /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a trace": b"TRACE /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "10,000 headers": _GET + b"".join(b"X-%d: y\r\n" % n for n in range(10_000)) + b"\r\n",
    "a header of a megabyte": _GET + b"X: " + b"y" * 2**20 + b"\r\n\r\n",
    "a name of a megabyte": _GET + b"Y" * 2**20 + b": x\r\n\r\n",
    "an address of a megabyte": b"GET /" + b"a" * 2**20 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "NUL in a header": _GET + b"X: a\x00b\r\n\r\n",
    "control characters in a header": _GET + b"X-Request-Id: a\x01\x1b[2J\r\n\r\n",
    "no UTF-8 in a header": _GET + b"Authorization: Bearer \xff\xfe\r\nX-Request-Id: \xff\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "noise": bytes(range(256)) * 40,
    "10,000 ranges": b"GET /docs/page.js HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes=" + b",".join(
        b"%d-%d" % (n, n + 1) for n in range(6_000)
    ) + b"\r\n\r\n",
    "a bad timeout": _POST + b"X-Request-Timeout: nan\r\nContent-Length: 2\r\n\r\n{}",
}  # fmt: skip
