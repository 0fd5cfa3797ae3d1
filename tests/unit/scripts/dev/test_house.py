"""The sizes of the code base that scripts/dev/house.py counts."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pydantic import BaseModel

from scripts.dev.house import BOUNDS, GOALS, Tree, closure, error_classes, exceeded, method_options, setting_count

TREE = Tree(
    {
        "server/a.py": "from server import b\nimport os\n",
        "server/b.py": "def late() -> None:\n    from retrieval.c import x\n",
        "retrieval/c.py": "class ArrowheadError(Exception): ...\nclass Lost(ArrowheadError): ...\n",
        "models/d.py": "class Other(OSError): ...\n",
        "server/unused.py": "class Gone(Lost): ...\n",
        "server/methods/one.py": "class OneOptions:\n    k: int = 1\n",
        "server/methods/two.py": "class TwoOptions(OneOptions):\n    rounds: int = 2\n",
        "docs/page.md": "three plain words\n",
    }
)


def test_the_closure_follows_imports_inside_functions_and_leaves_out_what_nobody_imports() -> None:
    assert closure(TREE, "server.a") == {"server.a": 2, "server.b": 2, "retrieval.c": 2}


def test_errors_are_those_of_the_one_tree() -> None:
    assert error_classes(TREE) == {"ArrowheadError", "Lost", "Gone"}


def test_an_inherited_option_counts_for_each_method() -> None:
    assert method_options(TREE) == 3


def test_lines_are_of_python_and_words_of_markdown() -> None:
    assert (TREE.lines("server/"), TREE.words()) == (9, 3)


def test_the_settings_of_a_group_count_instead_of_the_group() -> None:
    class Group(BaseModel):
        host: str = ""
        port: int = 0

    class Settings(BaseModel):
        server: Group = Group()
        name: str = ""

    assert setting_count(Settings) == 3


def test_a_figure_above_its_bound_is_named() -> None:
    assert exceeded({"settings": 11, "tests, lines": 5}, {"settings": 10, "tests, lines": 5}) == [
        "settings: 11 is above 10"
    ]


def test_every_goal_has_a_bound() -> None:
    assert GOALS.keys() == BOUNDS.keys()


def test_files_that_git_does_not_track_do_not_count(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "in.py").write_text("x = 1\n")
    subprocess.run(["git", "add", "in.py"], cwd=tmp_path, check=True)
    (tmp_path / "out.py").write_text("y = 1\n")

    assert list(Tree.of(tmp_path).files) == ["in.py"]
