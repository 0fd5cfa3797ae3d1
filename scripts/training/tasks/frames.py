"""List what generated passages can state: sentences, their negations, and questions about them.

Names in braces are drawn at random: {drug}, {gene}, {disease}, {tissue}, {symptom}, {bacterium}, {number}, {year} and
second ones ({drug2}). A sentence of ``denies`` contradicts the frame, ``inverts`` asks for the opposite of ``asks``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Frame:
    """Hold one kind of statement.

    ``states``: sentences that say it; ``denies``: sentences that say it is not so; ``asks``: questions whose answer is
    yes where it is so; ``inverts``: questions whose answer is no where it is so and yes where it is denied by
    ``inverse``; ``facts``: questions with the slot that answers them, asked of ``states`` only; ``german``: yes/no
    questions in German.
    """

    states: tuple[str, ...]
    denies: tuple[str, ...]
    asks: tuple[str, ...]
    inverse: tuple[str, ...] = ()
    inverts: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    german: tuple[str, ...] = ()
    german_facts: tuple[tuple[str, str], ...] = ()


FRAMES: Final = (
    Frame(
        states=(
            "{drug} potently inhibits {gene} in {tissue} cells.",
            "In vitro, {drug} blocked the activity of {gene}.",
            "The compound {drug} acts by inhibition of {gene}.",
            "{drug} is a selective {gene} inhibitor.",
        ),
        denies=(
            "{drug} had no effect on {gene} activity.",
            "{drug} does not bind to {gene} or block it.",
            "Inhibition of {gene} by {drug} could not be shown.",
        ),
        inverse=("{drug} is an agonist of {gene}.", "{drug} activates {gene} in {tissue} cells."),
        asks=("Does {drug} inhibit {gene}?", "Is {drug} an inhibitor of {gene}?", "Can {drug} block {gene}?"),
        inverts=("Does {drug} activate {gene}?", "Is {drug} an agonist of {gene}?"),
        facts=(
            ("Which gene product is inhibited by {drug}?", "gene"),
            ("What is the target of {drug}?", "gene"),
            ("Which drug inhibits {gene}?", "drug"),
            ("Which compound blocks {gene}?", "drug"),
        ),
        german=("Hemmt {drug} das Gen {gene}?", "Ist {drug} ein Hemmstoff von {gene}?"),
        german_facts=(("Welches Medikament hemmt {gene}?", "drug"),),
    ),
    Frame(
        states=(
            "Mutations in {gene} cause {disease}.",
            "{disease} results from loss-of-function variants of {gene}.",
            "We identified pathogenic variants of {gene} in all patients with {disease}.",
            "{disease} is a rare disorder caused by mutations in the {gene} gene.",
        ),
        denies=(
            "No mutations of {gene} were found in patients with {disease}.",
            "{gene} is not mutated in {disease}.",
            "Variants of {gene} do not cause {disease}.",
        ),
        asks=(
            "Do mutations in {gene} cause {disease}?",
            "Is {disease} caused by variants of {gene}?",
            "Is {gene} mutated in patients with {disease}?",
        ),
        facts=(
            ("Which gene is mutated in {disease}?", "gene"),
            ("What is the genetic cause of {disease}?", "gene"),
            ("Which disease is caused by mutations in {gene}?", "disease"),
        ),
        german=("Verursachen Mutationen in {gene} {disease}?",),
        german_facts=(("Welches Gen ist bei {disease} mutiert?", "gene"),),
    ),
    Frame(
        states=(
            "{drug} significantly improved survival of patients with {disease}.",
            "In a randomized trial, {drug} was effective for {disease}.",
            "Patients with {disease} who were given {drug} had fewer relapses than with placebo.",
            "{drug} has been approved for the treatment of {disease}.",
        ),
        denies=(
            "{drug} did not improve outcomes in patients with {disease}.",
            "The trial of {drug} in {disease} was stopped for futility.",
            "In {disease}, there was no difference between {drug} and placebo.",
            "{drug} failed to meet its primary endpoint in {disease}.",
        ),
        asks=(
            "Is {drug} effective for {disease}?",
            "Can {drug} be used to treat {disease}?",
            "Does {drug} help patients with {disease}?",
            "Should {drug} be used for {disease}?",
        ),
        facts=(
            ("Which drug is effective for {disease}?", "drug"),
            ("What is {drug} used for?", "disease"),
            ("Which disease can be treated with {drug}?", "disease"),
        ),
        german=("Ist {drug} bei {disease} wirksam?", "Hilft {drug} gegen {disease}?"),
        german_facts=(("Welches Medikament hilft bei {disease}?", "drug"),),
    ),
    Frame(
        states=(
            "{gene} expression is increased in {disease}.",
            "{gene} was upregulated in {tissue} of patients with {disease}.",
            "Levels of {gene} are higher in {disease} than in healthy controls.",
        ),
        denies=(
            "Levels of {gene} did not differ between patients with {disease} and controls.",
            "{gene} expression is unchanged in {disease}.",
        ),
        inverse=("{gene} expression is reduced in {disease}.", "{gene} was downregulated in patients with {disease}."),
        asks=("Is {gene} upregulated in {disease}?", "Are levels of {gene} increased in {disease}?"),
        inverts=("Is {gene} downregulated in {disease}?", "Are levels of {gene} reduced in {disease}?"),
        facts=(
            ("Which gene is upregulated in {disease}?", "gene"),
            ("In which disease are levels of {gene} increased?", "disease"),
        ),
    ),
    Frame(
        states=(
            "{gene} is expressed mainly in the {tissue}.",
            "The highest expression of {gene} was found in {tissue}.",
            "Strong staining for {gene} was seen in {tissue}.",
        ),
        denies=("{gene} is not expressed in the {tissue}.", "No expression of {gene} was detected in {tissue}."),
        asks=("Is {gene} expressed in the {tissue}?", "Can {gene} be detected in {tissue}?"),
        facts=(("In which tissue is {gene} expressed?", "tissue"), ("Where is {gene} mainly expressed?", "tissue")),
        german=("Wird {gene} in {tissue} exprimiert?",),
    ),
    Frame(
        states=(
            "The most frequent adverse event of {drug} was {symptom}.",
            "{symptom} was common in patients treated with {drug}.",
            "{drug} causes {symptom} in about {number} % of patients.",
        ),
        denies=("{symptom} was not observed with {drug}.", "{drug} does not cause {symptom}."),
        asks=("Does {drug} cause {symptom}?", "Is {symptom} a side effect of {drug}?"),
        facts=(
            ("What is the most frequent side effect of {drug}?", "symptom"),
            ("Which drug causes {symptom}?", "drug"),
        ),
        german=("Verursacht {drug} {symptom}?",),
    ),
    Frame(
        states=(
            "{disease} is inherited in an autosomal dominant manner.",
            "{disease} shows autosomal dominant transmission.",
        ),
        denies=(
            "{disease} is inherited in an autosomal recessive manner.",
            "{disease} is an X-linked recessive disorder.",
        ),
        asks=("Is {disease} inherited in an autosomal dominant manner?", "Is {disease} an autosomal dominant disease?"),
    ),
    Frame(
        states=(
            "Infection with {bacterium} increases the risk of {disease}.",
            "{bacterium} is associated with {disease}.",
            "A significant association between {bacterium} and {disease} was found.",
        ),
        denies=(
            "There was no association between {bacterium} and {disease}.",
            "{bacterium} is not associated with {disease}.",
            "{disease} was not more common in carriers of {bacterium}.",
        ),
        inverse=("{bacterium} lowers the risk of {disease}.", "{bacterium} protects from {disease}."),
        asks=("Is {bacterium} associated with {disease}?", "Does {bacterium} increase the risk of {disease}?"),
        inverts=("Does {bacterium} protect from {disease}?",),
        facts=(
            ("Which bacterium is associated with {disease}?", "bacterium"),
            ("Which disease is associated with {bacterium}?", "disease"),
        ),
    ),
    Frame(
        states=(
            "{gene} interacts directly with {gene2}.",
            "{gene} forms a complex with {gene2} in {tissue} cells.",
            "We show that {gene} binds {gene2}.",
        ),
        denies=("{gene} does not interact with {gene2}.", "No interaction between {gene} and {gene2} was seen."),
        asks=("Does {gene} interact with {gene2}?", "Is {gene2} a binding partner of {gene}?"),
        facts=(("Which protein does {gene} bind?", "gene2"), ("What is the binding partner of {gene}?", "gene2")),
    ),
    Frame(
        states=(
            "{drug} is safe in pregnancy.",
            "No harm was seen in women who took {drug} in pregnancy.",
            "{drug} can be given to pregnant women.",
        ),
        denies=("{drug} is contraindicated in pregnancy.", "{drug} is teratogenic and must not be used in pregnancy."),
        asks=("Is {drug} safe in pregnancy?", "Can {drug} be used during pregnancy?"),
        german=("Darf {drug} in der Schwangerschaft gegeben werden?",),
    ),
    Frame(
        states=(
            "The median age at onset of {disease} is {number} years.",
            "{disease} begins at about {number} years of age.",
        ),
        denies=(),
        asks=(),
        facts=(("What is the age at onset of {disease}?", "number"), ("At what age does {disease} begin?", "number")),
        german_facts=(("In welchem Alter beginnt {disease}?", "number"),),
    ),
    Frame(
        states=("{drug} was approved by the FDA in {year}.", "In {year}, {drug} received its first approval."),
        denies=("{drug} has not been approved by the FDA.", "The application for {drug} was rejected by the FDA."),
        asks=("Has {drug} been approved by the FDA?", "Is {drug} FDA approved?"),
        facts=(
            ("When was {drug} approved?", "year"),
            ("In which year was {drug} approved by the FDA?", "year"),
            ("Which drug was approved in {year}?", "drug"),
        ),
        german=("Ist {drug} zugelassen?",),
    ),
    Frame(
        states=(
            "{drug} combined with {drug2} was superior to {drug2} alone in {disease}.",
            "Adding {drug} to {drug2} prolonged survival in {disease}.",
        ),
        denies=("Adding {drug} to {drug2} gave no benefit in {disease}.",),
        asks=(
            "Does adding {drug} to {drug2} help in {disease}?",
            "Is {drug} with {drug2} better than {drug2} alone in {disease}?",
        ),
        facts=(("Which drug was combined with {drug2} in {disease}?", "drug"),),
    ),
    Frame(
        states=(
            "{disease} presents with {symptom} and {symptom2}.",
            "The main signs of {disease} are {symptom} and {symptom2}.",
            "{symptom} and {symptom2} are typical of {disease}.",
        ),
        denies=("{symptom} does not occur in {disease}.", "{symptom} is not a feature of {disease}."),
        asks=("Does {disease} present with {symptom}?", "Is {symptom} a sign of {disease}?"),
        facts=(
            ("What are the signs of {disease}?", "symptom and symptom2"),
            ("List the symptoms of {disease}.", "symptom and symptom2"),
        ),
        german=("Ist {symptom} ein Zeichen von {disease}?",),
        german_facts=(("Welche Symptome hat {disease}?", "symptom und symptom2"),),
    ),
    Frame(
        states=(
            "Serum {gene} is a biomarker of {disease}.",
            "{gene} in serum separates {disease} from other conditions.",
        ),
        denies=("Serum {gene} cannot be used to diagnose {disease}.", "{gene} is not a useful biomarker of {disease}."),
        asks=("Is {gene} a biomarker of {disease}?", "Can {gene} be used to diagnose {disease}?"),
        facts=(
            ("Which biomarker is used for {disease}?", "gene"),
            ("{gene} is a biomarker of which disease?", "disease"),
        ),
    ),
    Frame(
        states=(
            "Loss of {gene} sensitizes {tissue} cells to {drug}.",
            "{tissue} cells without {gene} are sensitive to {drug}.",
        ),
        denies=("Loss of {gene} does not change the response to {drug}.",),
        inverse=("Loss of {gene} makes {tissue} cells resistant to {drug}.",),
        asks=("Does loss of {gene} sensitize cells to {drug}?",),
        inverts=("Does loss of {gene} cause resistance to {drug}?",),
        facts=(("Which gene's loss sensitizes cells to {drug}?", "gene"),),
    ),
)

OPENERS: Final = (
    "In this study of {number} patients, we report on {disease3}.",
    "Little is known about {gene3} in the {tissue}.",
    "Here we describe a cohort of {number} families.",
    "Background: {disease3} is a major burden.",
    "We reviewed the literature on {drug3}.",
    "This retrospective study included {number} participants.",
    "The role of {gene3} has been debated.",
    "Further studies are needed.",
    "The results were confirmed in mice.",
    "Samples were taken at baseline and after {number} weeks.",
)
TITLES: Final = (
    "{disease}: a review",
    "Effects of {drug}",
    "The biology of {gene}",
    "A cohort study",
    "Treatment of {disease}",
    "Clinical and molecular findings in {disease}",
)
