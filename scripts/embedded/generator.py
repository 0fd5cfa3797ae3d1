"""Generate the transcripts the embedded model is trained on: question, calls, condensed replies, answer.

Replies are made by the production condensing code from random records, so the model sees the same form in training and
in service. Only model-written parts (``written``) are learnt; injected and asked parts are context.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from scripts.embedded.disease_kinds import DiseaseKinds
from scripts.embedded.gene_kinds import GeneKinds
from scripts.embedded.sequence_kinds import SequenceKinds
from scripts.embedded.transcript import OUT_OF_SCOPE, Part, Transcript
from scripts.embedded.values import Values


class Generator:
    """One seeded stream of transcripts. ``kinds`` holds each question type's share and maker."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.values = Values(self.draw)
        genes, diseases = GeneKinds(self.values), DiseaseKinds(self.values)
        sequences = SequenceKinds(self.values)
        self.kinds: dict[str, tuple[float, Callable[[], list[Part]]]] = {
            "copy": (0.0, self.copy),
            "alias": (2.4, lambda: genes.gene("alias")),
            "conversion": (0.8, lambda: genes.gene("conversion")),
            "location": (1.2, lambda: genes.gene("location")),
            "coding": (1.5, lambda: genes.gene("coding")),
            "snp_gene": (2.2, genes.snp_gene),
            "snp_location": (0.6, genes.snp_location),
            "disease": (1.6, lambda: diseases.disease(locations=False)),
            "disease_location": (1.6, lambda: diseases.disease(locations=True)),
            "alignment": (0.8, lambda: sequences.place("alignment")),
            "species": (1.5, lambda: sequences.place("species")),
            "snp_function": (3.2, genes.snp_function),
            "sequence_alias": (1.6, sequences.aliases),
            "other": (0.3, self._other),
        }

    def draw_one(self, kind: str = "") -> list[Part]:
        names = list(self.kinds)
        kind = kind or self.draw.choices(names, [self.kinds[n][0] for n in names])[0]
        return self.kinds[kind][1]()

    def copy(self) -> list[Part]:
        """Random identifiers and prose, then the same again."""
        v = self.values
        makers: list[Callable[[], str]] = [
            v.symbol,
            v.alias,
            v.gene_id,
            v.dna,
            v.word,
            v.ensembl,
            v.disease,
            v.summary,
            lambda: v.phrase(2, 5),
            lambda: v.band("7"),
        ]
        text = ", ".join(self.draw.choice(makers)() for _ in range(self.draw.randint(1, 6)))
        return [Part(f"Question: {text}\n", False), Part(f"Answer: {text}\n\n", True)]

    def _other(self) -> list[Part]:
        words = self.values.phrase(2, 9)
        starts = ["What is", "How does", "Why is", "Tell me about", "Explain", "Which treatment helps in", "Hello,", ""]
        question = f"{self.draw.choice(starts)} {words}{self.draw.choice(['?', '.', ''])}".strip()
        return Transcript(question).answer(OUT_OF_SCOPE)
