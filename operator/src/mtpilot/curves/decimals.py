"""Numbers as the API's decimal strings."""

from decimal import Decimal as Exact


def decimal_text(value: float, digits: int = 6) -> str:
    """The shortest plain text with so many significant digits: no exponent, no zeros at the end.

    Raises:
        ValueError: the value is infinite or not a number.
    """
    if value - value != 0:
        raise ValueError(f"not a finite number: {value}")
    text = format(Exact(f"{value:.{digits - 1}e}"), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def share_text(value: float) -> str:
    """A share from 0 to 1 with four decimals."""
    return decimal_text(round(min(max(value, 0.0), 1.0), 4), 4)
