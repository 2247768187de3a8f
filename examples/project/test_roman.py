import pytest

from roman import to_roman


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "I"), (4, "IV"), (9, "IX"), (14, "XIV"), (40, "XL"), (90, "XC"), (400, "CD"), (1994, "MCMXCIV"), (2026, "MMXXVI")],
)
def test_to_roman(number: int, text: str) -> None:
    assert to_roman(number) == text
