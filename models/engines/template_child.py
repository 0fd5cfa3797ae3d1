"""Render chat templates, as a script in its own process, within limits that it sets itself.

A template is a program that comes with a model's files: it may loop for ever or build gigabytes of text, and no thread
can be ended. Each line of the input is JSON with ``source``, the template, and ``variables``; each line of the output
is ``{"text"}`` or ``{"error"}``. The environment is the one for which templates are written, that of transformers
(``apply_chat_template``): sandboxed, with its functions and its mark for the text of assistants.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NoReturn

from jinja2 import Template, TemplateError, ext, nodes
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_CHARS: Final = 16 * 2**20
_MEMORY: Final = 768 * 2**20
# Of processor time, which a busy machine does not shorten; a template takes a millisecond.
_SECONDS: Final = 1


class _AssistantText(ext.Extension):
    """Render what stands between ``generation`` and ``endgeneration`` as it is."""

    tags = {"generation"}  # noqa: RUF012  # jinja2's own interface

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _as_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None,
             sort_keys: bool = False) -> str:  # fmt: skip
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@lru_cache(maxsize=8)
def _compiled(source: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_AssistantText, ext.loopcontrols]
    )
    environment.filters["tojson"] = _as_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(source)


def reply_to(line: bytes) -> dict[str, str]:
    """Return the rendered text, or why there is none."""
    try:
        request = json.loads(line)
        text = _compiled(request["source"]).render(request["variables"])
    except MemoryError:
        return {"error": "it needs too much memory"}
    except RecursionError:
        return {"error": "it calls itself too often"}
    except Exception as error:  # whatever a template raises
        return {"error": (str(error).strip().splitlines() or [type(error).__name__])[0][:500]}
    return {"text": text} if len(text) <= MAX_CHARS else {"error": f"it writes more than {MAX_CHARS} characters"}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out = sys.stdout.buffer
    out.write(b"{}\n")  # ready
    out.flush()
    for line in sys.stdin.buffer:
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + _SECONDS, most))
        out.write(json.dumps(reply_to(line)).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    main()
