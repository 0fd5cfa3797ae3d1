"""Translate a Put request's parameters into blast+ arguments, and parse its sequences, by the BLAST Common URL API.

Every value is checked and rewritten: client input never becomes an argument itself. Unknown parameters are ignored, as
at NCBI; known ones that are not supported here are rejected by name. QUERY has bare letters or FASTA, one sequence or
several, checked for their molecule. Pure functions, no I/O.
Scores and gap costs for which BLAST has no statistics are refused by blast+ itself, in the search.
Source: https://blast.ncbi.nlm.nih.gov/doc/blast-help/urlapi.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from retrieval.formats.tables import is_number
from retrieval.gateway.http_reply import whole_number

Molecule = Literal["nucl", "prot"]
SHORT_QUERY: Final = 30  # letters; up to this length the URL API adjusts a search to short queries
MIN_LETTERS: Final = {"nucl": 10, "prot": 5}
MAX_LETTERS: Final = 100_000  # of all queries of a Put together
MAX_QUERIES: Final = 50
_MAX_TITLE: Final = 200
_LETTERS: Final = {
    "nucl": re.compile(r"[ACGTUNRYKMSWBDHV]+", re.IGNORECASE),
    "prot": re.compile(r"[ABCDEFGHIJKLMNOPQRSTUVWXYZ*-]+", re.IGNORECASE),
}
_BASES_ONLY: Final = re.compile(r"[ACGTUN]{20,}", re.IGNORECASE)
_IDENTIFIER: Final = re.compile(r"(?:[A-Z]{1,4}_?\d{5,9}|[A-Z]{2}_[A-Z]{4}\d{6,9})(?:\.\d{1,3})?", re.IGNORECASE)
_LAYOUT: Final = re.compile(r"(?<!\S)\d+(?!\S)|\s+")  # blanks, and the line numbers of GenBank's layout
_LINE_END: Final = re.compile(r"\r\n?|\n")
_UNREADABLE: Final = "Message ID#24 Error: Failed to read the Blast query: "
_WRONG_MOLECULE: Final = {
    "nucl": "Protein FASTA provided for nucleotide sequence",
    "prot": "Nucleotide FASTA provided for protein sequence",
}
_NAMES: Final = {"nucl": "Nucleotide", "prot": "Protein"}
_URACIL: Final = str.maketrans("Uu", "Tt")
PROGRAMS: Final[Mapping[str, tuple[Molecule, Molecule]]] = {  # of the query, of the database
    "blastn": ("nucl", "nucl"),
    "blastp": ("prot", "prot"),
    "blastx": ("nucl", "prot"),
    "tblastn": ("prot", "nucl"),
    "tblastx": ("nucl", "nucl"),
}
DEFAULT_HITS: Final = 50
MAX_HITS: Final = 5000
_MAX_EXPECT: Final = 1_000_000.0
_LAST: Final = 999_999_999  # blast+ reduces a position behind the end to the end
_YES: Final = frozenset({"on", "true", "yes", "t", "1", "y"})
_NO: Final = frozenset({"", "off", "false", "no", "f", "0", "n", "none", "(none)"})
# Parameters of the older API, each of which would change the result.
_REFUSED: Final = (
    "PHI_PATTERN", "PSSM", "TEMPLATE_TYPE", "TEMPLATE_LENGTH", "UNGAPPED_ALIGNMENT", "OTHER_ADVANCED", "SEARCHSP_EFF",
    "QUERY_FILE", "BL2SEQ", "SUBJECTS", "NEGATIVE_GILIST", "GILIST",
)  # fmt: skip
_SHORT_EXPECT: Final = {"blastn": "1000", "blastp": "50000"}
_GENETIC_CODES: Final = frozenset((*range(1, 7), *range(9, 17), *range(21, 32), 33))
_MATRICES: Final = ("BLOSUM45", "BLOSUM50", "BLOSUM62", "BLOSUM80", "BLOSUM90", "PAM30", "PAM70", "PAM250")


@dataclass(frozen=True, slots=True)
class Program:
    """Identify a program of blast+ by ``name`` and its -task, "" for one without tasks."""

    name: str
    task: str

    @property
    def query_molecule(self) -> Molecule:
        return PROGRAMS[self.name][0]

    @property
    def database_molecule(self) -> Molecule:
        return PROGRAMS[self.name][1]


def read_program(params: Mapping[str, str]) -> Program:
    """Return the program before the query is known.

    Raises:
        ValueError: PROGRAM or SERVICE is not available.
    """
    name = params.get("PROGRAM", "blastn").strip().lower() or "blastn"
    service = params.get("SERVICE", "plain").strip().lower()
    if service not in ("plain", "megablast", ""):
        raise ValueError(f"Error: SERVICE {shown(service)} is not available here")
    if name != "megablast" and name not in PROGRAMS:
        raise ValueError(f"Error: PROGRAM {shown(name)} is not one of {', '.join(PROGRAMS)}, megablast")
    if name in ("blastn", "megablast"):
        mega = name == "megablast" or service == "megablast" or is_on(params, "MEGABLAST")
        return Program("blastn", "megablast" if mega else "blastn")
    return Program(name, "" if name == "tblastx" else name)


def for_short_queries(program: Program, params: Mapping[str, str], queries: Sequence[QuerySequence]) -> Program:
    """Return the program with its short-query task if all queries are short.

    SHORT_QUERY_ADJUST or a WORD_SIZE can turn this off.
    """
    adjust = params.get("SHORT_QUERY_ADJUST", "true").strip().lower() in _YES
    if not adjust or program.name not in _SHORT_EXPECT or params.get("WORD_SIZE", "").strip():
        return program
    if any(len(query.letters) > SHORT_QUERY for query in queries):
        return program
    return Program(program.name, f"{program.name}-short")


def search_arguments(program: Program, params: Mapping[str, str]) -> tuple[str, ...]:
    """Return the blast+ arguments for all parameters but database, query and hit list.

    Raises:
        ValueError: a value is invalid or a parameter is not supported.
    """
    for name in _REFUSED:
        if params.get(name, "").strip().lower() not in _NO:
            raise ValueError(f"Error: {name} is not available here")
    short = program.task.endswith("-short")
    arguments = [*_task(program), "-evalue", _expect(params, _SHORT_EXPECT[program.name] if short else "10")]
    arguments += _word_size(program, params) + _filter(program, params) + _query_range(params)
    if is_on(params, "LCASE_MASK"):
        arguments.append("-lcase_masking")
    arguments += _nucleotide(program, params) if program.name == "blastn" else _protein(program, params)
    return tuple(arguments)


def hit_list_size(params: Mapping[str, str], default: int = DEFAULT_HITS) -> int:
    return max(1, whole_number(params, "HITLIST_SIZE", default, MAX_HITS))


def is_on(params: Mapping[str, str], name: str) -> bool:
    return params.get(name, "").strip().lower() in _YES


def shown(text: str) -> str:
    """Return client input as an error page may repeat it: printable, at most 40 characters."""
    return "".join(c if c.isprintable() else " " for c in text.strip())[:40]


def _task(program: Program) -> list[str]:
    return ["-task", program.task] if program.task else []


def _expect(params: Mapping[str, str], default: str) -> str:
    text = params.get("EXPECT", "").strip() or default
    try:
        value = float(text)
    except ValueError:
        raise ValueError("Error: EXPECT is not a number") from None
    if not 0 < value <= _MAX_EXPECT:
        raise ValueError(f"Error: EXPECT must be above 0 and at most {_MAX_EXPECT:.0f}")
    return f"{value:g}"


def _integer(params: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    text = params.get(name, "").strip()
    if not text:
        return None
    digits = text.removeprefix("-")
    if not (is_number(digits, 9) and low <= int(text) <= high):
        raise ValueError(f"Error: {name} must be a whole number from {low} to {high}")
    return int(text)


def _word_size(program: Program, params: Mapping[str, str]) -> list[str]:
    low, high = (4, 100) if program.name == "blastn" else (2, 3) if program.name == "tblastx" else (2, 7)
    size = _integer(params, "WORD_SIZE", low, high)
    return [] if size is None else ["-word_size", str(size)]


def _filter(program: Program, params: Mapping[str, str]) -> list[str]:
    """Return the arguments of FILTER: F is off, T and L are on, mT and mL mask only while words are looked up.

    The default is off for short queries, else blast+'s own.
    """
    option = "-dust" if program.name == "blastn" else "-seg"
    text = params.get("FILTER", "").replace(" ", "").replace(";", "").lower()
    if not text:
        return [option, "no"] if program.task.endswith("-short") else []
    if text in _NO:
        return [option, "no"]
    letter = text.removeprefix("m")
    if letter not in (*_YES, "l"):
        raise ValueError(f"Error: FILTER {shown(params['FILTER'])} is not one of F, T, L, mT, mL")
    return [option, "yes", "-soft_masking", "true" if text != letter else "false"]


def _query_range(params: Mapping[str, str]) -> list[str]:
    first, last = (_integer(params, name, 1, _LAST) for name in ("QUERY_FROM", "QUERY_TO"))
    if first is None and last is None:
        return []
    if first is not None and last is not None and first > last:
        raise ValueError("Error: QUERY_FROM is behind QUERY_TO")
    return ["-query_loc", f"{first or 1}-{last or _LAST}"]


def _gap_costs(params: Mapping[str, str]) -> list[str]:
    parts = params.get("GAPCOSTS", "").replace(",", " ").split()
    if not parts:
        return []
    if len(parts) != 2 or not all(is_number(part, 3) for part in parts):
        raise ValueError('Error: GAPCOSTS must be two whole numbers like "5 2"')
    return ["-gapopen", parts[0], "-gapextend", parts[1]]


def _nucleotide(program: Program, params: Mapping[str, str]) -> list[str]:
    reward, penalty = _integer(params, "NUCL_REWARD", 1, 100), _integer(params, "NUCL_PENALTY", -100, -1)
    defaults = {"megablast": (1, -2), "blastn-short": (1, -3)}.get(program.task, (2, -3))
    scores = (reward or defaults[0], penalty or defaults[1])
    arguments = ["-reward", str(scores[0]), "-penalty", str(scores[1])] if reward or penalty else []
    identity = _integer(params, "PERC_IDENT", 0, 100)
    return arguments + _gap_costs(params) + ([] if identity is None else ["-perc_identity", str(identity)])


def _protein(program: Program, params: Mapping[str, str]) -> list[str]:
    if params.get("PERC_IDENT", "").strip():
        raise ValueError(f"Error: PERC_IDENT is not available for {program.name}")
    matrix = (params.get("MATRIX", "") or params.get("MATRIX_NAME", "")).strip().upper()
    if matrix and matrix not in _MATRICES:
        raise ValueError(f"Error: MATRIX must be one of {', '.join(_MATRICES)}")
    arguments = ["-matrix", matrix] if matrix else []
    arguments += _gap_costs(params) if program.name != "tblastx" else []
    threshold = _integer(params, "THRESHOLD", 1, 999)
    arguments += [] if threshold is None else ["-threshold", str(threshold)]
    return arguments + _composition(program, params) + _genetic_codes(program, params)


def _composition(program: Program, params: Mapping[str, str]) -> list[str]:
    if program.name == "tblastx":
        return []
    mode = params.get("COMPOSITION_BASED_STATISTICS", "").strip().lower()
    if not mode:
        return ["-comp_based_stats", "0"] if program.task == "blastp-short" else []
    mode = {"no": "0", "off": "0", "false": "0", "f": "0", "yes": "2", "on": "2", "true": "2", "t": "2"}.get(mode, mode)
    if mode not in ("0", "1", "2", "3"):
        raise ValueError("Error: COMPOSITION_BASED_STATISTICS must be 0, 1, 2 or 3")
    return ["-comp_based_stats", mode]


def _genetic_codes(program: Program, params: Mapping[str, str]) -> list[str]:
    arguments: list[str] = []
    for name, option, programs in (
        ("GENETIC_CODE", "-query_gencode", ("blastx", "tblastx")),
        ("DB_GENETIC_CODE", "-db_gencode", ("tblastn", "tblastx")),
    ):
        code = _integer(params, name, 1, 33)
        if code is not None and program.name in programs:
            if code not in _GENETIC_CODES:
                raise ValueError(f"Error: {name} {code} is no genetic code")
            arguments += [option, str(code)]
    return arguments


@dataclass(frozen=True, slots=True)
class QuerySequence:
    """Hold one query sequence.

    ``title``: printable ASCII without line breaks, may be ""; ``letters``: IUPAC letters, upper case unless the
    client's lower case is preserved.
    """

    title: str
    letters: str


def read_sequences(text: str, molecule: Molecule, *, keep_case: bool = False) -> tuple[QuerySequence, ...]:
    """Parse the sequences of a Put request.

    Raises:
        ValueError: a sequence cannot be searched with; the message is NCBI's where NCBI has one.
    """
    entries = _entries(text)
    if len(entries) > MAX_QUERIES:
        raise ValueError(f"Error: the query holds {len(entries)} sequences, {MAX_QUERIES} are allowed")
    found = tuple(
        QuerySequence(title, letters if keep_case else letters.upper())
        for title, letters in ((title, _letters(body, molecule)) for title, body in entries)
    )
    total = sum(len(sequence.letters) for sequence in found)
    if total > MAX_LETTERS:
        raise ValueError(f"Error: the query has {total} letters, {MAX_LETTERS} are allowed")
    return found


def _entries(text: str) -> list[tuple[str, str]]:
    """Return (title, body) of each FASTA entry; letters before the first ">" are an entry without title."""
    entries: list[tuple[str, list[str]]] = []
    for line in _LINE_END.split(text.strip()):
        if not line:
            continue
        if line.startswith(">"):
            entries.append((_title(line[1:]), []))
        elif entries:
            entries[-1][1].append(line)
        else:
            entries.append(("", [line]))
    if not entries:
        raise ValueError(f"{_UNREADABLE}Sequence contains no data")
    return [(title, "\n".join(body)) for title, body in entries]


def _title(text: str) -> str:
    ascii_text = text.encode("ascii", "replace").decode()
    return " ".join("".join(c if c.isprintable() else " " for c in ascii_text).split())[:_MAX_TITLE]


def _letters(body: str, molecule: Molecule) -> str:
    letters = _LAYOUT.sub("", body)
    if not letters:
        raise ValueError(f"{_UNREADABLE}Sequence contains no data")
    if _IDENTIFIER.fullmatch(letters):
        raise ValueError("Error: the query is an identifier; records are not looked up here, send the sequence itself")
    if not _LETTERS[molecule].fullmatch(letters):
        if molecule == "nucl" and _LETTERS["prot"].fullmatch(letters):
            raise ValueError(f"{_UNREADABLE}{_WRONG_MOLECULE['nucl']}")
        raise ValueError(f"{_UNREADABLE}{_NAMES[molecule]} FASTA provided is not valid")
    if molecule == "prot" and not (letters := letters.replace("-", "")):  # blast+ skips gaps, too
        raise ValueError(f"{_UNREADABLE}Sequence contains no data")
    if molecule == "prot" and _BASES_ONLY.fullmatch(letters):
        raise ValueError(f"{_UNREADABLE}{_WRONG_MOLECULE['prot']}")
    if len(letters) < MIN_LETTERS[molecule]:
        raise ValueError(f"Error: the query has {len(letters)} letters, at least {MIN_LETTERS[molecule]} are needed")
    return letters.translate(_URACIL) if molecule == "nucl" else letters
