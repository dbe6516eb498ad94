import math

import pytest

from mtpilot.curves.decimals import decimal_text, share_text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.0, "0"), (121.5, "121.5"), (-0.20000001, "-0.2"), (1.5e-7, "0.00000015"), (2.0, "2"), (123456.789, "123457")],
)
def test_a_number_is_plain_text(value, text):
    assert decimal_text(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="not a finite number"):
        decimal_text(value)


def test_a_share_stays_between_0_and_1():
    assert [share_text(value) for value in (-0.1, 0.00004, 0.034, 1.0, 1.7)] == ["0", "0", "0.034", "1", "1"]
