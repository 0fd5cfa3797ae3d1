"""Read units of measurement, in four languages, and bring values to base units by pint."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import pint

# What pint does not have, has as a pure number, or has for something else. IU and U are units of activity of what they
# measure; cells and copies are counts.
_DEFINITIONS: Final = (
    "bioactivity = [bioactivity]",
    # A dose per kilogram of body weight is no pure number, though a mass over a mass is one.
    "body_kilogram = [body_mass]",
    "body_gram = 1e-3 * body_kilogram",
    "proportion = [proportion]",
    "part_per_million = 1e-4 * proportion",
    "arc = [arc]",
    "base_pair = [base_pair]",
    "charge_equivalent = [charge_equivalent]",
    "fold = [fold]",
    "number = []",
    # pint's sievert is a speed squared; the dose of a body is nothing else's.
    "effective_dose = [effective_dose]",
    # An energy in mass, length and time would hide the day of "kcal a day".
    "energy_joule = [energy_value]",
    "energy_calorie = 4.184 * energy_joule",
)
_PREFIXES: Final = {
    "": "",
    "p": "pico",
    "n": "nano",
    "µ": "micro",
    "u": "micro",
    "m": "milli",
    "k": "kilo",
    "M": "mega",
}
# Symbols that take a prefix: a symbol, its unit and the prefixes in use.
_SYMBOLS: Final = (
    ("g", "gram", "pnµumk"),
    ("L", "liter", "pnµum"),
    ("l", "liter", "nµum"),
    ("mol", "mole", "pnµumk"),
    ("M", "molar", "pnµum"),
    ("m", "meter", "nµumk"),
    ("Da", "dalton", "kM"),
    ("bp", "base_pair", "kM"),
    ("Hz", "hertz", "kM"),
    ("Gy", "gray", "m"),
    ("Bq", "becquerel", "kM"),
    ("Sv", "effective_dose", "nµum"),
    ("J", "energy_joule", "kM"),
    ("cal", "energy_calorie", "k"),
    ("eq", "charge_equivalent", "mµ"),
    ("Eq", "charge_equivalent", "mµ"),
    ("U", "bioactivity", "mkM"),
    ("IU", "bioactivity", "mkM"),
    ("Pa", "pascal", "kM"),
    ("s", "second", "nµum"),
)
_OTHER_SYMBOLS: Final = {
    "%": "proportion", "ppm": "part_per_million", "mcg": "microgram", "cm": "centimeter", "dL": "deciliter",
    "dl": "deciliter", "cc": "milliliter", "kb": "1e3 * base_pair", "Mb": "1e6 * base_pair",
    "kcal": "kiloenergy_calorie",
    "mmHg": "millimeter_Hg", "mm Hg": "millimeter_Hg", "cmH2O": "centimeter_H2O", "°C": "degree_Celsius",
    "° C": "degree_Celsius", "ºC": "degree_Celsius", "℃": "degree_Celsius", "°F": "degree_Fahrenheit", "°": "arc",
    "º": "arc", "m2": "meter**2", "m²": "meter**2", "m^2": "meter**2", "cm2": "centimeter**2", "cm²": "centimeter**2",
    "mm3": "millimeter**3", "mm³": "millimeter**3", "UI": "bioactivity", "IE": "bioactivity", "lb": "pound",
    "h": "hour", "hr": "hour", "hrs": "hour", "Std": "hour", "min": "minute", "mins": "minute", "Min": "minute",
    "sec": "second", "d": "day", "j": "day", "wk": "week", "wks": "week", "mo": "month", "yr": "year", "yrs": "year",
    "kg": "kilogram", "kDa": "kilodalton", "mg": "milligram",
}  # fmt: skip
# Words in any case; a stem in "(…)" is optional.
_WORDS: Final = (
    ("proportion", r"percent(?:age points?)?|per cent|prozent(?:punkte?n?)?|pour[ -]?cent|por ciento|p\.p\."),
    ("microgram", r"micro-?gram(?:me|o)?s?|mikrogramm"),
    ("micromole", r"micro-?moles?|mikromol|micromole?s"),
    ("nanogram", r"nanogram(?:me|o)?s?|nanogramm"),
    ("milligram", r"milligram(?:me)?s?|milligramm|miligramos?"),
    ("kilogram", r"kilogram(?:me|o)?s?|kilogramm|kilos?"),
    ("gram", r"gram(?:me|o)?s?|gramm"),
    ("milliliter", r"millilit(?:er|re)s?|mililitros?"),
    ("deciliter", r"decilit(?:er|re)s?|deziliter|decilitros?"),
    ("microliter", r"microlit(?:er|re)s?|mikroliter|microlitros?"),
    ("liter", r"lit(?:er|re|ro)s?"),
    ("millimole", r"millimoles?|millimol|milimoles"),
    ("micrometer", r"micromet(?:er|re)s?|mikrometer|microns?|micrómetros?"),
    ("nanometer", r"nanomet(?:er|re)s?|nanómetros?"),
    ("millimeter", r"millimet(?:er|re)s?|milímetros?"),
    ("centimeter", r"centimet(?:er|re)s?|zentimeter|centimètres?|centímetros?"),
    ("meter**2", r"square met(?:er|re)s?|quadratmetern?|mètres? carrés?|metros? cuadrados?"),
    ("kiloenergy_calorie", r"kilo-?calor(?:ie|ía)s?|kilokalorien?"),
    ("bioactivity", r"(?:international )?units?|(?:internationale )?einheiten|uni(?:té|dade)s(?: interna[ct]ionales)?"),
    ("degree_Celsius", r"degrees? (?:celsius|centigrade)|grad celsius|degrés? celsius|grados? celsius"),
    ("arc", r"degrees?|grad|degrés?|grados?"),
    ("second", r"seconds?|sekunden?|secondes?|segundos?"),
    ("minute", r"minutes?|minuten?|minutos?"),
    ("hour", r"hours?|stunden?|heures?|horas?"),
    ("day", r"days?|tage?n?|tages|jours?|días?|dias?"),
    ("week", r"weeks?|wochen?|semaines?|semanas?"),
    ("month", r"months?|monate?n?|monats|mois|mes(?:es)?"),
    ("year", r"years?|jahre?n?|jahres|ans?|années?|años?"),
    ("base_pair", r"base pairs?|bases?|basenpaare?n?|paires? de bases|pares de bases"),
    ("fold", r"-?fold|-?fach(?:e[nrsm]?)?|times as|times (?:more|less|higher|lower)|fois plus|veces más"),
    ("number", r"cells?|zellen|cellules?|células?|copies|kopien|copias"),
)  # fmt: skip
_ADVERBS: Final = (
    ("day", r"daily|täglich|(?:journalier|quotidien)s?|diari[oa]s?|al día"),
    ("hour", r"hourly|stündlich"),
    ("week", r"weekly|wöchentlich|hebdomadaires?|semanal(?:es)?"),
    ("month", r"monthly|monatlich|mensuel(?:le)?s?|mensual(?:es)?"),
    ("year", r"yearly|annually|jährlich|annuel(?:le)?s?|anual(?:es)?"),
)

_PER: Final = {"kilogram": "body_kilogram", "gram": "body_gram"}


class Unit(NamedTuple):
    """Hold a unit as it is written: its dimension, and the factor to base units (None for a scale with an offset)."""

    expression: str
    dimension: str
    factor: float | None


NO_UNIT: Final = Unit("", "", 1.0)


def _symbols() -> dict[str, str]:
    table = {p + symbol: _PREFIXES[p] + unit for symbol, unit, prefixes in _SYMBOLS for p in ("", *prefixes)}
    return table | _OTHER_SYMBOLS


def _alternatives(table: dict[str, str]) -> str:
    return "|".join(re.escape(symbol) for symbol in sorted(table, key=len, reverse=True))


class Units:
    """Read units behind numbers and convert values to base units; holds pint's registry, made at the first use."""

    def __init__(self) -> None:
        self._symbols = _symbols()
        words = "|".join(f"(?i:{pattern})" for _, pattern in _WORDS)
        one = rf"(?:(?:{words})|(?:{_alternatives(self._symbols)}))(?![^\W\d_]|[-]1(?!\d))"
        adverb = "|".join(f"(?i:{pattern})" for _, pattern in _ADVERBS)
        per = r"\s?/\s?|\s(?:per|pro|par|por|je|a|an|al|à la|each|every|jeden|jede|chaque|cada)\s"
        inverse = rf"day|hour|week|{_alternatives(self._symbols)}"
        mass = r"bw|körpergewicht|poids(?: corporel)?|peso(?: corporal)?"
        # "of real body weight": one word says which.
        of_body = rf"(?:\s(?:of |de )?(?:(?:[^\W\d_]{{4,}}\s)?body[ -]?weight|{mass}))?"
        # "0.5 g of xylitol per kg": the substance stands within the unit.
        what = (
            r"\s(?:of\s|de\s)?[^\W\d_][\w-]*(?:\s[^\W\d_][\w-]*)?(?=\s(?:per|pro|par|por|je)\s(?:kg|kilo|m2|m²)(?!\w))"
        )
        self._pattern = re.compile(
            rf"(?P<first>{one})(?:{what})?(?P<rest>(?:(?:{per})(?:{one}){of_body})*(?:\s?[·.]?(?:{inverse})(?:-1|⁻¹))*)"
            rf"(?:(?:{per})1[.,]73\s?m(?:²|\^?2)(?!\w))?"
            rf"(?P<adverb>\s(?:{adverb})(?!\w))?"
        )
        # 5 ×10⁹/L and 50,000/µL: a count has no unit of its own.
        self._bare = re.compile(rf"\s?/\s?(?P<unit>{_alternatives(self._symbols)})(?!\w)")
        self._one = re.compile(one)
        self._below = re.compile(rf"(?:{per})({one})")
        self._inverse = re.compile(rf"({inverse})(?:-1|⁻¹)")
        self._words = tuple((unit, re.compile(pattern, re.IGNORECASE)) for unit, pattern in _WORDS)
        self._adverbs = tuple((unit, re.compile(pattern, re.IGNORECASE)) for unit, pattern in _ADVERBS)
        self._known: dict[str, Unit] = {}
        self._registry: pint.UnitRegistry[Any] | None = None

    @property
    def one(self) -> str:
        """Return the pattern of a single unit."""
        return self._one.pattern

    def match(self, text: str, start: int) -> tuple[Unit, int] | None:
        """Return the unit that stands at a place, with its end."""
        found = self._pattern.match(text, start)
        if found is not None:
            expression = self._expression(found["first"], found["rest"] or "", (found["adverb"] or "").strip())
            return self.unit(expression), found.end()
        bare = self._bare.match(text, start)
        return (self.unit(f"number / ({self._symbols[bare['unit']]})"), bare.end()) if bare else None

    def unit(self, expression: str) -> Unit:
        if expression not in self._known:
            self._known[expression] = self._made(expression)
        return self._known[expression]

    def base(self, value: float, unit: Unit) -> float:
        """Return the value in base units."""
        if unit.factor is not None:
            return value * unit.factor
        return float(self._units().Quantity(value, unit.expression).to_base_units().magnitude)

    def _expression(self, first: str, rest: str, adverb: str) -> str:
        parts = [self._single(first)]
        inverse = [found[1] for found in self._inverse.finditer(rest)]
        below = [found[1] for found in self._below.finditer(self._inverse.sub("", rest))]
        parts += [self._single(one) for one in (*below, *inverse)]
        if adverb:
            parts.append(next(unit for unit, pattern in self._adverbs if pattern.fullmatch(adverb)))
        if len(parts) == 1:
            return parts[0]
        below_it = (_PER.get(part, part) for part in parts[1:])
        return " / ".join(f"({part})" for part in (parts[0].replace("degree_", "delta_degree_"), *below_it))

    def _single(self, text: str) -> str:
        if text in ("day", "hour", "week"):
            return text
        known = self._symbols.get(text)
        return known or next(unit for unit, pattern in self._words if pattern.fullmatch(text))

    def _made(self, expression: str) -> Unit:
        registry = self._units()
        if expression.startswith("degree_"):
            return Unit(expression, "[temperature]", None)
        one = 1 * registry.parse_expression(expression)
        return Unit(expression, str(one.dimensionality), float(one.to_base_units().magnitude))

    def _units(self) -> pint.UnitRegistry[Any]:
        if self._registry is None:
            import pint  # a third of a second, which only an answer with a measured value has to wait for

            registry: pint.UnitRegistry[Any] = pint.UnitRegistry(cache_folder=None)
            for definition in _DEFINITIONS:
                registry.define(definition)
            self._registry = registry
        return self._registry
