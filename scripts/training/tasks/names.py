"""Draw random names that look like those of medicine, so that no fact can be learned by heart."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from scripts.embedded.values import Values


@cache
def parts(kind: str) -> tuple[str, ...]:
    """Return the parts or words of names of a kind, as ``names.toml`` lists them."""
    text = (files("scripts.training.tasks") / "names.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)[kind])


@dataclass(frozen=True, slots=True)
class Names:
    """Draw names from one seeded source."""

    values: Values

    def gene(self) -> str:
        return self.values.symbol()

    def drug(self) -> str:
        draw = self.values.draw
        stem = "".join(draw.choice("bcdfglmnprstvxz") + draw.choice("aeiou") for _ in range(draw.choice((1, 2, 2, 3))))
        name = stem + draw.choice(parts("drug_ends"))
        if draw.random() < 0.12:
            return f"{draw.choice(('AZD', 'LY', 'PF', 'BMS', 'GSK', 'TAK'))}-{draw.randint(100, 99_999)}"
        return name.capitalize() if draw.random() < 0.5 else name

    def disease(self) -> str:
        draw = self.values.draw
        name = self.values.invented()
        shape = draw.random()
        if shape < 0.35:
            return f"{name.capitalize()} {draw.choice(parts('disease_ends'))}"
        if shape < 0.5:
            return f"{name.capitalize()}-{self.values.invented().capitalize()} {draw.choice(('syndrome', 'disease'))}"
        if shape < 0.8:
            return f"{draw.choice(parts('qualifiers'))} {name} {draw.choice(parts('disease_ends'))}"
        return f"{name}{draw.choice(('osis', 'itis', 'oma', 'emia', 'opathy'))} type {draw.randint(1, 9)}"

    def symptom(self) -> str:
        return self.values.draw.choice(parts("symptoms"))

    def tissue(self) -> str:
        return self.values.draw.choice(parts("tissues"))

    def bacterium(self) -> str:
        return f"{self.values.invented().capitalize()}ella {self.values.invented()}"
