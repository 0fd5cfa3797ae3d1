"""Phrase questions of each type. The first phrasing of each list is the benchmark's own and is drawn more often."""

from __future__ import annotations

import random

COT = "Let's decompose the question to sub-questions and solve them step by step."

_PHRASES: dict[str, tuple[str, ...]] = {
    "alias": (
        "What is the official gene symbol of {}?",
        "What is the official symbol of {}?",
        "Which gene is also called {}?",
        "Give the official gene symbol for {}.",
        "{} is an alias of which gene?",
        "What is the approved symbol of the gene known as {}?",
    ),
    "conversion": (
        "Convert {} to official gene symbol.",
        "What is the gene symbol of {}?",
        "Which gene has the Ensembl identifier {}?",
        "What is the official gene symbol of {}?",
    ),
    "location": (
        "Which chromosome is {} gene located on human genome?",
        "On which chromosome is the gene {}?",
        "Where is {} located?",
        "What is the chromosome of {}?",
    ),
    "coding": (
        "Is {} a protein-coding gene?",
        "Does {} code for a protein?",
        "Is the gene {} protein-coding?",
        "Does the gene {} encode a protein?",
    ),
    "snp_gene": (
        "Which gene is SNP {} associated with?",
        "Which gene does {} belong to?",
        "What gene is {} in?",
        "Name the gene of variant {}.",
    ),
    "snp_location": (
        "Which chromosome does SNP {} locate on human genome?",
        "On which chromosome is {}?",
        "Where is SNP {} located?",
        "What chromosome is the variant {} on?",
    ),
    "disease": (
        "What are genes related to {}?",
        "Which genes are associated with {}?",
        "List the genes that cause {}.",
        "Which gene is responsible for {}?",
    ),
    "disease_location": (
        "List chromosome locations of the genes related to {}. " + COT,
        "What are the chromosome locations of the genes related to {}? " + COT,
        "List chromosome locations of the genes related to {}.",
        "Where are the genes of {} located?",
    ),
    "alignment": (
        "Align the DNA sequence to the human genome:{}",
        "Align this DNA sequence to the human genome: {}",
        "Which chromosome does this sequence come from? {}",
    ),
    "species": (
        "Which organism does the DNA sequence come from:{}",
        "Which organism does this DNA sequence come from: {}",
        "Which species has the sequence {}?",
    ),
    "snp_function": (
        "What is the function of the gene associated with SNP {}? " + COT,
        "What does the gene associated with {} do? " + COT,
        "What is the function of the gene of SNP {}?",
    ),
    "sequence_alias": (
        "What are the aliases of the gene that contains this sequnece:{}. " + COT,
        "What are the aliases of the gene that contains this sequence: {}. " + COT,
        "What are the aliases of the gene with the sequence {}?",
    ),
}


def phrase_question(draw: random.Random, kind: str, subject: str, organism: str = "human") -> str:
    phrases = _PHRASES[kind]
    text = (phrases[0] if draw.random() < 0.4 else draw.choice(phrases)).format(subject)
    if organism == "human":
        return text
    return f"{text.rstrip('?.').replace(' on human genome', '')} in {organism}?"
