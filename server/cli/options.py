"""Define what the verbs of the command share: groups of verbs, the settings file and the flags that set a setting."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from server.settings.schema import Settings

ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="settings file (TOML)")]


class VerbGroup(TyperGroup):
    """List the verbs in the error for one that does not exist."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if args[0] not in self.commands:
            ctx.fail(f"invalid choice: {args[0]!r} (choose from {', '.join(self.commands)})")
        return super().resolve_command(ctx, args)


def verbs(help_text: str) -> typer.Typer:
    """Return an empty group of verbs whose help is plain text and whose errors are left to ``main``."""
    return typer.Typer(
        cls=VerbGroup,
        help=help_text,
        subcommand_metavar="VERB ...",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def wrong(reason: str) -> int:
    """Say what is wrong with a command, and return its exit status."""
    print(f"arrowhead: {reason}", file=sys.stderr)
    return 2


class SettingFlag(NamedTuple):
    """Name the setting that a flag sets, and its help."""

    flag: str
    group: str
    field: str
    help: str


# Every other setting has its variable and its line in the TOML file.
SETTING_FLAGS: Final = (
    SettingFlag("--host", "server", "host", "address to listen on (127.0.0.1)"),
    SettingFlag("--port", "server", "port", "port to listen on (8000)"),
    SettingFlag("--model", "model", "name", "directory, GGUF file, hub id or shipped model"),
    SettingFlag("--revision", "model", "revision", "commit of a hub id"),
    SettingFlag("--served-name", "model", "served_name", "name clients use"),
    SettingFlag("--engine", "model", "engine", "auto, transformers, vllm, remote or scripted"),
    SettingFlag("--model-url", "model", "url", "vLLM server of the remote engine, or a router: http://host:8000"),
    SettingFlag("--script", "model", "script", "script of the scripted engine"),
    SettingFlag("--prompt-form", "model", "prompt_form", "base or chat"),
    SettingFlag("--dtype", "model", "dtype", "auto, float32, bfloat16 or float16"),
    SettingFlag("--device", "model", "device", "auto, cpu, cuda or cuda:N"),
    SettingFlag("--max-model-len", "model", "max_model_len", "tokens of prompt and answer together"),
    SettingFlag("--max-num-seqs", "model", "max_num_seqs", "sequences decoded together"),
    SettingFlag("--kv-cache-gib", "model", "kv_cache_gib", "memory for cached prefixes"),
    SettingFlag(
        "--gpu-memory-utilization", "model", "gpu_memory_utilization", "share of each GPU (vllm); what is free"
    ),
    SettingFlag("--tensor-parallel-size", "model", "tensor_parallel_size", "GPUs that share each layer (vllm)"),
    SettingFlag("--quantization", "model", "quantization", "format of the weights (vllm); the checkpoint's own"),
    SettingFlag("--adapter", "model", "adapter", "LoRA adapter with which the model answers: name, folder or none"),
    SettingFlag("--lora-adapters", "model", "lora_adapters", "adapters (vllm), name=folder,name=folder"),
    SettingFlag("--draft-tokens", "model", "draft_tokens", "tokens drafted from earlier text; 0 for none"),
    SettingFlag("--egress", "egress", "mode", "off (nothing leaves this machine), local-first or ncbi"),
    SettingFlag("--audit-log", "audit", "path", "audit log of what leaves"),
    SettingFlag("--email", "ncbi", "email", "contact address for NCBI"),
    SettingFlag("--eutils-url", "ncbi", "eutils_url", "E-utilities address"),
    SettingFlag("--blast-url", "ncbi", "blast_url", "BLAST address"),
    SettingFlag("--gateway-data", "gateway", "data_dir", "store of the built-in gateway"),
    SettingFlag("--max-calls", "loop", "max_calls", "calls of one answer"),
    SettingFlag("--trace-dir", "traces", "dir", "folder for traces on disk"),
    SettingFlag("--log-level", "log", "level", "DEBUG, INFO, WARNING or ERROR"),
    SettingFlag("--log-format", "log", "format", "text or json"),
)
ALL_FLAGS: Final = frozenset(one.flag for one in SETTING_FLAGS)


@dataclass(frozen=True, slots=True)
class CommandLineSettings:
    """Hold the settings of one command line, group -> field -> text, and the settings file that it names."""

    flags: dict[str, dict[str, str]] = field(default_factory=dict)
    config: Path | None = None

    def load(self) -> Settings:
        """Return the settings.

        Raises:
            SettingsInvalid: names each wrong variable.
        """
        from server.settings.loading import load_settings

        return load_settings(self.flags, self.config)


def with_setting_flags(flags: Collection[str] = ALL_FLAGS) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that gives a verb ``--config`` and these flags.

    The verb's first parameter receives them as ``CommandLineSettings``. typer reads the added parameters from the
    signature.
    """
    chosen = {f"{one.group}_{one.field}": one for one in SETTING_FLAGS if one.flag in flags}

    def decorate(verb: Callable[..., int]) -> Callable[..., int]:
        _, *own = inspect.signature(verb, eval_str=True).parameters.values()

        @functools.wraps(verb)
        def run(config: Path | None, **values: Any) -> int:
            groups: dict[str, dict[str, str]] = {}
            for name, one in chosen.items():
                value = values.pop(name)
                if value is not None:
                    groups.setdefault(one.group, {})[one.field] = value
            return verb(CommandLineSettings(groups, config), **values)

        added = [_parameter("config", ConfigFile), *(_parameter(name, _text(one)) for name, one in chosen.items())]
        run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]  # read by inspect
        return run

    return decorate


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _text(one: SettingFlag) -> Any:
    return Annotated[str | None, typer.Option(one.flag, metavar=one.field.upper(), help=one.help)]
