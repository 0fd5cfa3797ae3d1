"""Draw random names that look like those of medicine, so that no fact can be learned by heart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scripts.embedded.values import Values

_DRUG_ENDS: Final = (
    "mab",
    "nib",
    "pril",
    "sartan",
    "olol",
    "statin",
    "azole",
    "cillin",
    "mycin",
    "tide",
    "gliptin",
    "ximab",
    "parib",
    "vir",
    "caine",
    "setron",
    "oxetine",
    "azepam",
    "ciclib",
    "lukast",
)
_DISEASE_ENDS: Final = (
    "syndrome",
    "disease",
    "anemia",
    "ataxia",
    "carcinoma",
    "lymphoma",
    "neuropathy",
    "dystrophy",
    "cardiomyopathy",
    "nephritis",
    "colitis",
    "dermatitis",
    "epilepsy",
    "myopathy",
    "fever",
    "retinopathy",
    "fibrosis",
    "encephalopathy",
    "sarcoma",
    "arthritis",
)
_QUALIFIERS: Final = ("familial", "chronic", "acute", "congenital", "juvenile", "hereditary", "idiopathic", "severe")
SYMPTOMS: Final = (
    "fever",
    "fatigue",
    "headache",
    "ataxia",
    "seizures",
    "nausea",
    "vomiting",
    "tremor",
    "dizziness",
    "dyspnea",
    "cough",
    "rash",
    "pruritus",
    "hypotonia",
    "muscle weakness",
    "weight loss",
    "anemia",
    "diarrhea",
    "abdominal pain",
    "edema",
    "hearing loss",
    "blurred vision",
    "insomnia",
    "syncope",
    "neutropenia",
    "thrombocytopenia",
    "hypotension",
    "constipation",
    "hair loss",
    "joint pain",
)
TISSUES: Final = (
    "liver",
    "kidney",
    "brain",
    "heart",
    "lung",
    "skin",
    "retina",
    "pancreas",
    "spleen",
    "bone marrow",
    "skeletal muscle",
    "placenta",
    "testis",
    "colon",
    "thyroid",
    "adrenal gland",
    "hippocampus",
)


@dataclass(frozen=True, slots=True)
class Names:
    """Draw names from one seeded source."""

    values: Values

    def gene(self) -> str:
        return self.values.symbol()

    def drug(self) -> str:
        draw = self.values.draw
        stem = "".join(draw.choice("bcdfglmnprstvxz") + draw.choice("aeiou") for _ in range(draw.choice((1, 2, 2, 3))))
        name = stem + draw.choice(_DRUG_ENDS)
        if draw.random() < 0.12:
            return f"{draw.choice(('AZD', 'LY', 'PF', 'BMS', 'GSK', 'TAK'))}-{draw.randint(100, 99_999)}"
        return name.capitalize() if draw.random() < 0.5 else name

    def disease(self) -> str:
        draw = self.values.draw
        name = self.values.invented()
        shape = draw.random()
        if shape < 0.35:
            return f"{name.capitalize()} {draw.choice(_DISEASE_ENDS)}"
        if shape < 0.5:
            return f"{name.capitalize()}-{self.values.invented().capitalize()} {draw.choice(('syndrome', 'disease'))}"
        if shape < 0.8:
            return f"{draw.choice(_QUALIFIERS)} {name} {draw.choice(_DISEASE_ENDS)}"
        return f"{name}{draw.choice(('osis', 'itis', 'oma', 'emia', 'opathy'))} type {draw.randint(1, 9)}"

    def symptom(self) -> str:
        return self.values.draw.choice(SYMPTOMS)

    def tissue(self) -> str:
        return self.values.draw.choice(TISSUES)

    def bacterium(self) -> str:
        return f"{self.values.invented().capitalize()}ella {self.values.invented()}"
