"""Render chats with a model's template, and arrange their messages as it demands.

Owns what a template accepts (a system message, two turns of one role in a row) and which token ends a turn. Knows
nothing of token ids beyond that.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from models.engines.template_process import TemplateFailed, TemplateProcess
from models.errors import UnsupportedParam

Messages = Sequence[Mapping[str, Any]]
_Arrange = Callable[[Messages], list[dict[str, str]]]
_ROLE = re.compile(r"[a-z_]{1,32}")
_MAX_KNOWN = 256


def template_source(chat_template: object) -> str:
    """Return the template for chats without tools, "" if there is none.

    A tokenizer has one template, or several by name.
    """
    if isinstance(chat_template, Mapping):
        named = {str(name): str(source) for name, source in chat_template.items()}
        return named.get("default") or (next(iter(named.values())) if len(named) == 1 else "")
    return chat_template if isinstance(chat_template, str) else ""


# Arguments of transformers' method that are none of the template.
_NOT_VARIABLES = (
    "chat_template", "tokenize", "padding", "truncation", "max_length", "return_tensors", "return_dict",
    "return_assistant_tokens_mask", "tokenizer_kwargs", "continue_final_message",
)  # fmt: skip


class ChatTemplate:
    """Render chats with one template, in a process of its own.

    ``special_tokens`` are the tokenizer's by name, which templates have as variables.
    """

    def __init__(self, special_tokens: Mapping[str, Any], source: str, process: TemplateProcess | None = None) -> None:
        self.source = source
        self._special_tokens = {name: _as_text(token) for name, token in special_tokens.items()}
        self._process = process or TemplateProcess()
        # By the roles of a chat: what the template demands does not depend on its texts.
        self._arrangements: OrderedDict[tuple[str, ...], _Arrange] = OrderedDict()

    def arrange(self, messages: Messages) -> list[dict[str, str]]:
        """Return the messages in the first form that the template renders without loss.

        As they are; else adjacent messages of one role merged; else all system text in front; else that text in the
        first user turn.

        Raises:
            UnsupportedParam: the template refuses each of them or drops a message.
        """
        for message in messages:
            # A role is written into the markup as it stands, so it must not be free text.
            if not _ROLE.fullmatch(message["role"]):
                raise UnsupportedParam(f"not a role: {message['role'][:32]!r}", param="messages")
        roles = tuple(message["role"] for message in messages)
        known = self._arrangements.pop(roles, None) or self._find(roles)
        self._arrangements[roles] = known
        if len(self._arrangements) > _MAX_KNOWN:
            self._arrangements.popitem(last=False)
        return known(messages)

    def render(self, messages: Messages, variables: Mapping[str, Any]) -> str:
        """Render messages in a form that ``arrange`` returns, with further arguments of transformers' method.

        Raises:
            UnsupportedParam: the template refuses them, fails, or takes more time or memory than any template needs.
        """
        if variables.get("continue_final_message"):
            raise UnsupportedParam("continue_final_message: is not served", param="continue_final_message")
        given = {name: value for name, value in variables.items() if name not in _NOT_VARIABLES}
        usual = {"tools": None, "documents": None, "add_generation_prompt": False}
        chat = {"messages": [dict(message) for message in messages]}
        try:
            return self._process.render(
                str(variables.get("chat_template") or self.source), usual | self._special_tokens | given | chat
            )
        except (TemplateFailed, TypeError, ValueError) as error:
            raise UnsupportedParam(f"the chat template refuses: {error}", param="messages") from error

    def after_reply(self) -> str:
        """Return what the template writes after a reply, "" where it renders none."""
        mark = _mark()
        chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": mark}]
        try:
            return self.render(chat, {"add_generation_prompt": False}).rpartition(mark)[2]
        except UnsupportedParam:
            return ""

    def _find(self, roles: Sequence[str]) -> _Arrange:
        chat = [{"role": role, "content": _mark()} for role in roles]
        refusal: UnsupportedParam | None = None
        for arrange in (_as_they_are, _merged, _system_first, _system_in_user):
            try:
                rendered = self.render(arrange(chat), {"add_generation_prompt": True})
            except UnsupportedParam as error:
                refusal = refusal or error
                continue
            dropped = [message["role"] for message in chat if message["content"] not in rendered]
            if not dropped:
                return arrange
            reason = f"the chat template drops a {dropped[0]!r} message"
            refusal = refusal or UnsupportedParam(reason, param="messages")
        raise refusal or UnsupportedParam("there are no messages", param="messages")


def _as_text(token: Any) -> Any:
    """Return special tokens as text; some names have several."""
    return [str(part) for part in token] if isinstance(token, list | tuple) else str(token)


def _mark() -> str:
    return f"mark{secrets.token_hex(8)}"


def _as_they_are(messages: Messages) -> list[dict[str, str]]:
    return [dict(message) for message in messages]


def _merged(messages: Messages) -> list[dict[str, str]]:
    merged: list[dict[str, str]] = []
    for message in messages:
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"] = _joined(merged[-1]["content"], message["content"])
        else:
            merged.append(dict(message))
    return merged


def _system_first(messages: Messages) -> list[dict[str, str]]:
    system = [message for message in messages if message["role"] == "system"]
    return _merged([*system, *(message for message in messages if message["role"] != "system")])


def _system_in_user(messages: Messages) -> list[dict[str, str]]:
    """Put the system text in front of the first user turn, which it makes if there is none."""
    arranged = _system_first(messages)
    if not arranged or arranged[0]["role"] != "system":
        return arranged
    instruction, *turns = arranged
    first = next((turn for turn in turns if turn["role"] == "user"), None)
    if first is None:
        return [{"role": "user", "content": instruction["content"]}, *turns]
    first["content"] = _joined(instruction["content"], first["content"])
    return turns


def _joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text.strip())
