"""Formulas in MathML on one line."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from retrieval.formats.notation import text_of

NAMESPACE = 'xmlns:m="http://www.w3.org/1998/Math/MathML"'


def _text(inner: str) -> str:
    return text_of(ElementTree.fromstring(f"<p {NAMESPACE}><m:math>{inner}</m:math></p>"))


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("<m:mfrac><m:mn>1</m:mn><m:mn>2</m:mn></m:mfrac>", "1/2"),
        ("<m:mn>3</m:mn><m:mfrac><m:mn>1</m:mn><m:mn>2</m:mn></m:mfrac><m:mn>5</m:mn>", "3 1/2 5"),
        (
            "<m:mfrac><m:mrow><m:mi>a</m:mi><m:mo>+</m:mo><m:mi>b</m:mi></m:mrow><m:mi>c</m:mi></m:mfrac>",
            "(a+b)/c",
        ),
        ("<m:msup><m:mn>10</m:mn><m:mrow><m:mo>−</m:mo><m:mn>6</m:mn></m:mrow></m:msup>", "10⁻⁶"),
        ("<m:mn>2</m:mn><m:msup><m:mn>10</m:mn><m:mn>6</m:mn></m:msup>", "2 10⁶"),
        ("<m:msub><m:mi>x</m:mi><m:mn>1</m:mn></m:msub><m:mn>5</m:mn>", "x₁5"),
        ("<m:msubsup><m:mi>x</m:mi><m:mn>1</m:mn><m:mn>2</m:mn></m:msubsup>", "x1²"),
        ("<m:msup><m:mrow><m:mi>a</m:mi><m:mo>+</m:mo><m:mn>1</m:mn></m:mrow><m:mn>2</m:mn></m:msup>", "(a+1)²"),
        ("<m:msqrt><m:mn>25</m:mn></m:msqrt>", "√25"),
        ("<m:mroot><m:mn>8</m:mn><m:mn>3</m:mn></m:mroot>", "8^(1/3)"),
        ("<m:mover><m:mi>x</m:mi><m:mo>¯</m:mo></m:mover>", "x\u0304"),
        ("<m:munderover><m:mo>∑</m:mo><m:mrow><m:mi>i</m:mi><m:mo>=</m:mo><m:mn>1</m:mn></m:mrow><m:mi>n</m:mi>"
         "</m:munderover>", "∑_(i=1)ⁿ"),
        ("<m:mmultiscripts><m:mi>I</m:mi><m:mprescripts/><m:none/><m:mn>131</m:mn></m:mmultiscripts>", "131I"),
        ("<m:mn>2</m:mn><m:mo>\u2062</m:mo><m:mn>3</m:mn>", "2 3"),
        ("<m:mfenced><m:mn>1</m:mn><m:mn>2</m:mn></m:mfenced>", "(1,2)"),
        ("<m:mtable><m:mtr><m:mtd><m:mn>1</m:mn></m:mtd><m:mtd><m:mn>2</m:mn></m:mtd></m:mtr></m:mtable>", "1 2"),
        ("<m:semantics><m:mi>p</m:mi><m:annotation>\\pi</m:annotation></m:semantics>", "p"),
        ('<m:mfrac linethickness="0"><m:mi>n</m:mi><m:mi>k</m:mi></m:mfrac>', "n; k"),
        ("<m:msup><m:mn>5</m:mn></m:msup>", "5"),
    ],
)  # fmt: skip
def test_a_formula_keeps_its_numbers_apart(formula: str, text: str) -> None:
    """Fractions with a slash, powers and indices as elsewhere in a text."""
    assert _text(formula) == text
