"""Roman numerals."""

NUMERALS = [(1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"), (1, "I")]


def to_roman(number: int) -> str:
    """Return a positive number as a Roman numeral."""
    text = ""
    for value, letters in NUMERALS:
        while number >= value:
            text += letters
            number -= value
    return text
