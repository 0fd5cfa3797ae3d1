"""One key for the spellings of a word."""

from __future__ import annotations

import pytest

from retrieval.lexical.spelling import word_key

ALIKE = [
    "tumour tumor tumours tumors", "anaemia anemia anaemias", "haemoglobin hemoglobin",
    "leukaemia leukemia leukaemias", "oesophagus esophagus", "oedema edema", "oestrogen estrogen",
    "diarrhoea diarrhea", "dyspnoea dyspnea", "paediatric pediatric", "aetiology etiology", "coeliac celiac",
    "foetal fetal", "behaviour behavior", "randomised randomized", "hospitalisation hospitalization",
    "analyse analyze", "analysed analyzed", "analysis analyses", "metastasis metastases", "diagnosis diagnoses",
    "thrombosis thromboses", "hypothesis hypotheses", "synthesis syntheses", "bacterium bacteria",
    "criterion criteria", "nucleus nuclei", "index indices", "mouse mice", "child children", "centre center",
    "fibre fiber", "sulphate sulfate", "leucocyte leukocytes", "biopsy biopsies", "homoeostasis homeostasis",
]  # fmt: skip


@pytest.mark.parametrize("spellings", ALIKE)
def test_spellings_share_a_key(spellings: str) -> None:
    """British and American, one and many."""
    assert len({word_key(word) for word in spellings.split()}) == 1


UNLIKE = [
    "dose dosis", "glucose glucosis", "disease disorder", "case casis", "base basis", "kinase kinesis",
    "protease proteasis", "aerobic erobic", "poem pem", "does des", "parameter parametre2", "diameter dimeter",
    "our or", "hour hor", "four for", "flour flor", "wise wize", "rise rize", "diabetes diabete", "species specie",
    "virus viru", "kras kra", "pus pu",
]  # fmt: skip


@pytest.mark.parametrize("words", UNLIKE)
def test_other_words_keep_their_own(words: str) -> None:
    """What only looks like a plural, or like British spelling."""
    assert len({word_key(word) for word in words.split()}) == 2


def test_words_that_look_british_are_left_alone() -> None:
    """The rules know what stands around "ae", "oe" and "our"."""
    for word in ("aerobic", "phoenix", "poem", "hour", "source", "course", "journal", "parameter", "diameter", "kras"):
        assert word_key(word) == word
