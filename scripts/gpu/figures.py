"""What the parts of first_light have in common; free of every library."""

from __future__ import annotations

import argparse


def figure(name: str, value: object) -> None:
    """Print a figure for the report."""
    print(f"FIGURE {name}={value}", flush=True)


def is_dry(description: str | None) -> bool:
    """Whether this part is asked to be small and on the processor."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--dry", action="store_true")
    return bool(parser.parse_args().dry)
