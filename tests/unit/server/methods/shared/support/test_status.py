"""Retracted and replaced articles."""

from __future__ import annotations

import pytest

from server.methods.shared.support.status import status_of


@pytest.mark.parametrize(
    ("title", "types", "notices", "status"),
    [
        ("A trial", ["Journal Article", "Retracted Publication"], [], "retracted"),
        ("A trial", [], ["RetractionIn"], "retracted"),
        ("RETRACTED: A trial", [], [], "retracted"),
        ("RETRACTED ARTICLE: A trial", [], [], "retracted"),
        ("A trial (PubMed; RETRACTED)", [], [], "retracted"),
        ("WITHDRAWN: A review", [], [], "superseded"),
        ("A review", [], ["UpdateIn"], "superseded"),
        ("A trial", ["Journal Article"], ["CommentIn", "ErratumIn"], "current"),
        ("Retracted eardrums in children", [], [], "current"),
        ("Withdrawn children", [], [], "current"),
    ],
)
def test_notes_and_marks_say_what_an_article_is(title: str, types: list[str], notices: list[str], status: str) -> None:
    """PubMed's types and notices, and the publishers' marks of titles; other words of a title say nothing."""
    assert status_of(title, types, notices) == status
