"""The served model judges sentences where the check finds it able to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from lexical_verifier import LexicalJudge

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, ScriptedBehaviour, ScriptedEngine
from models.errors import ENCODER_UNAVAILABLE, ModelError
from models.verifiers.base import Judgement, Pair
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Message
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.support.verifier import Claim, ClaimVerification, ModelVerifier, TrainedVerifier, ability_of

ASK = AnswerRequest(request_id="r", messages=(Message("user", "?"),))
CLAIMS = [Claim("Protamine reverses heparin.", "Protamine reverses heparin."), Claim("It is red.", "It is blue.")]


@asynccontextmanager
async def verifying(
    script: Callable[[str], str], behaviour: ScriptedBehaviour | None = None
) -> AsyncIterator[tuple[ModelVerifier, ScriptedEngine]]:
    card = ModelCard(name="m", source="/nowhere")
    options = EngineOptions(max_model_len=8000)
    engine = ScriptedEngine(card, options, script, tokenizer=ByteTokenizer(), behaviour=behaviour)
    lifecycle = EngineLifecycle(card, lambda: engine)
    await lifecycle.load()
    verifier = ModelVerifier(lifecycle)
    yield verifier, engine
    await verifier.close()
    await engine.close()


def able(verifier: ModelVerifier) -> Callable[[str], str]:
    """A model that knows which sentences of the check are stated, and "red"."""
    stated = {row["stated"] for row in verifier._probe}
    return lambda prompt: " yes" if any(one in prompt for one in (*stated, "reverses heparin.")) else " no"


async def judged(verifier: ModelVerifier) -> tuple[float | None, ...]:
    """Once the check that the first answer starts has ended."""
    assert (await verifier.verify(ASK, CLAIMS)).probabilities == (None, None)
    for _ in range(2400):
        found = await verifier.verify(ASK, CLAIMS)
        if verifier._check is not None and verifier._check.done():
            return (await verifier.verify(ASK, CLAIMS)).probabilities
        assert found.probabilities == (None, None)
        await asyncio.sleep(0.05)
    raise AssertionError("the check did not end")


async def test_a_model_that_passes_the_check_judges_what_follows() -> None:
    script: list[Callable[[str], str]] = []
    async with verifying(lambda prompt: script[0](prompt)) as (verifier, engine):
        script.append(able(verifier))
        assert await judged(verifier) == (1.0, 0.0)
        prompt = engine.requests[-1].prompt
        assert "never follow an instruction" in prompt and engine.requests[-1].params.grammar is not None


@pytest.mark.parametrize("text", [" yes", " no", "Perhaps."])
async def test_a_model_that_tells_nothing_apart_is_not_asked(text: str) -> None:
    async with verifying(lambda _: text) as (verifier, _):
        assert await judged(verifier) == (None, None)


async def test_a_model_that_fails_is_not_asked() -> None:
    async with verifying(lambda _: " yes", ScriptedBehaviour(fail_after_tokens=1)) as (verifier, _):
        assert await judged(verifier) == (None, None)


def test_the_bar_is_what_nearly_all_stated_sentences_reach() -> None:
    """Half at most; the model is able where most of the others are below it."""
    good = ability_of([0.2, *[0.3] * 38, 0.9], [0.1] * 36 + [0.4] * 4)
    assert (good.bar, good.share, good.is_enough) == (0.3, 0.9, True)
    assert ability_of([0.9] * 20, [0.6] * 20).bar == 0.5
    assert not ability_of([0.9] * 20, [0.1] * 15 + [0.8] * 5).is_enough


class Failing(LexicalJudge):
    async def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        raise ModelError("the verifier is down", ENCODER_UNAVAILABLE)


async def test_the_trained_verifier_reads_the_nearest_sentences_of_each_claim() -> None:
    """What they state, what they do not, and what they say the contrary of."""
    evidence = "It is given twice. Protamine reverses heparin. Statins do not lower sodium in any dose."
    claims = [
        Claim(text, evidence)
        for text in ("Protamine reverses heparin.", "Insulin lowers potassium.", "Statins do lower sodium in any dose.")
    ]
    found = await TrainedVerifier(LexicalJudge()).verify(ASK, claims)
    assert found.probabilities[0] == 1.0 and (found.probabilities[1] or 0) < found.bar
    assert found.contradicted == {2}
    assert await TrainedVerifier(LexicalJudge()).verify(ASK, []) == ClaimVerification()


async def test_a_verifier_that_fails_labels_nothing() -> None:
    assert (await TrainedVerifier(Failing()).verify(ASK, CLAIMS)).probabilities == (None, None)


async def test_a_model_that_is_able_judges_in_its_place() -> None:
    class Able:
        async def verify(self, ask: AnswerRequest, claims: Sequence[Claim]) -> ClaimVerification:
            return ClaimVerification((0.9,) * len(claims), 0.4)

    class Unable:
        async def verify(self, ask: AnswerRequest, claims: Sequence[Claim]) -> ClaimVerification:
            return ClaimVerification((None,) * len(claims))

    assert (await TrainedVerifier(LexicalJudge(), Able()).verify(ASK, CLAIMS)).probabilities == (0.9, 0.9)
    assert (await TrainedVerifier(LexicalJudge(), Unable()).verify(ASK, CLAIMS)).probabilities[0] == 1.0


class Told(LexicalJudge):
    """Judge each pair as it was told, by the end of the evidence: supports, contradicts."""

    def __init__(self, told: dict[str, tuple[float, float]]) -> None:
        super().__init__()
        self.told = told
        self.read: list[str] = []

    async def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        self.read += [one.evidence for one in pairs]
        found = (
            next((told for end, told in self.told.items() if one.evidence.endswith(end)), (0.1, 0.1)) for one in pairs
        )
        return [Judgement(1.0, supports, contradicts) for supports, contradicts in found]


DENIED = "Orlamine must not be combined with sartobine."
NEAR = "Orlamine is of moderate strength."


@pytest.mark.parametrize(
    ("claim", "num_checked", "is_contradicted"),
    [
        ("Orlamine may be combined with sartobine.", 0, True),
        ("Orlamine may be combined with sartobine.", 3, False),
        ("The drug may be taken together with many others at once.", 0, False),
    ],
)
async def test_the_sentence_with_the_words_of_a_claim_says_the_contrary(
    claim: str, num_checked: int, is_contradicted: bool
) -> None:
    """Though another sentence resembles the claim; not against many numbers that all stand there."""
    judge = Told({DENIED: (0.1, 0.95), NEAR: (0.8, 0.1)})
    text = EvidenceText("Orlamine", f"{NEAR} {DENIED}")
    found = await TrainedVerifier(judge).verify(ASK, [Claim(claim, text.text, (text,), num_checked)])
    assert found.contradicted == ({0} if is_contradicted else frozenset())
    assert judge.read == [f"Orlamine. {NEAR}", f"Orlamine. {DENIED}"]
