"""The files of ``deploy/scale-out`` as they are read: services of Compose, objects of Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "deploy" / "scale-out"
MANIFESTS = FOLDER / "kubernetes"
WITH_EGRESS = FOLDER / "kubernetes-egress"
EXAMPLE = MANIFESTS / "secret.example.yaml"


def compose(name: str = "compose.yaml") -> dict[str, Any]:
    """As Compose reads it without variables: each ``${NAME:-value}`` is its value."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (FOLDER / name).read_text())
    return dict(yaml.safe_load(text))


def server_environment() -> dict[str, str]:
    return dict(compose()["services"]["server-1"]["environment"])


def objects(folder: Path = MANIFESTS) -> Iterator[dict[str, Any]]:
    """Every object of every manifest, that of the example too."""
    for path in sorted(folder.glob("*.yaml")):
        if path.name != "kustomization.yaml":
            yield from yaml.safe_load_all(path.read_text())


def manifest(kind: str, name: str) -> dict[str, Any]:
    (found,) = [it for it in objects() if (it["kind"], it["metadata"]["name"]) == (kind, name)]
    return found


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    """By name."""
    return {it["metadata"]["name"]: it for it in objects() if it["kind"] == kind}


def pod(name: str) -> dict[str, Any]:
    """The pod of a stateful set."""
    return dict(manifest("StatefulSet", name)["spec"]["template"]["spec"])


def container(name: str) -> dict[str, Any]:
    (found,) = pod(name)["containers"]
    return dict(found)
