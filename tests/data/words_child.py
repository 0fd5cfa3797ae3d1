"""Opens, searches, verifies and writes copies of an index of words, each damaged at random places.

Arguments: folder of the index, folder for the copies, seed, number of copies. Prints a line before each copy is opened,
and a line for what came of it. Run with the checkout's folder on PYTHONPATH."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from retrieval.errors import IndexFault
from retrieval.lexical.tantivy_index import open_tantivy
from retrieval.passages import Passage

Harm = Callable[[random.Random, bytes, list[Path]], bytes]


def one_bit(chance: random.Random, content: bytes, _: list[Path]) -> bytes:
    place = chance.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]


def some_bytes(chance: random.Random, content: bytes, _: list[Path]) -> bytes:
    changed = bytearray(content)
    for _number in range(chance.randint(2, 12)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def digits(chance: random.Random, content: bytes, _: list[Path]) -> bytes:
    """Of numbers in text, such as those of JSON."""
    changed = bytearray(content)
    for place in [at for at, byte in enumerate(changed) if 0x30 <= byte <= 0x39 and chance.random() < 0.1]:
        changed[place] = chance.choice(b"0123456789eE.-")
    return bytes(changed)


def cut(chance: random.Random, content: bytes, _: list[Path]) -> bytes:
    return content[: chance.randrange(len(content))]


def emptied_block(chance: random.Random, content: bytes, _: list[Path]) -> bytes:
    """As a disk leaves it that lost a block."""
    place = chance.randrange(len(content))
    length = min(512, len(content) - place)
    return content[:place] + bytes(length) + content[place + length :]


def longer(chance: random.Random, content: bytes, _: list[Path]) -> bytes:
    return content + chance.randbytes(chance.randint(1, 64))


def another(chance: random.Random, content: bytes, files: list[Path]) -> bytes:
    """The content of another file, with a checksum that is right."""
    return chance.choice(files).read_bytes()


HARMS: tuple[Harm, ...] = (one_bit, some_bytes, digits, cut, emptied_block, longer, another)


def tried(folder: Path) -> str:
    """Return the steps that went well, and the error that ended them."""
    steps = ""
    try:
        index = open_tantivy(folder)
        try:
            index.search("asthma il6 mice cells", 400)
            steps += "s"
            index.search("trial", 3)
            index.verify()
            steps += "v"
            index.add([Passage(passage_id=900, document_id="d", title="", text="asthma of mice and cells")])
            index.delete([1])
            index.commit()
            steps += "w"
            index.search("asthma mice", 400)
        finally:
            index.close()
    except IndexFault as error:
        return f"{steps} {type(error).__name__}"
    except BaseException as error:  # a panic of the library is no Exception
        return f"{steps} FAILED {type(error).__name__}: {error}"
    return f"{steps} whole"


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    made, copies, seed, number = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    chance = random.Random(seed)
    for place in range(number):
        folder = copies / str(place)
        shutil.copytree(made, folder)
        files = sorted(path for path in folder.iterdir() if path.is_file() and path.stat().st_size)
        target, harm = chance.choice(files), chance.choice(HARMS)
        target.write_bytes(harm(chance, target.read_bytes(), files))
        tell(f"{place} {target.name} {harm.__name__}")
        tell(f"{place} {tried(folder)}")
        # Threads of an index that was just given up may still write there.
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
