"""Memory sizes as Kubernetes writes them, and as people read them."""

import re

from mtpilot.api.types import QUANTITY_PATTERN

GIB = 1 << 30
MIB = 1 << 20

_FACTORS = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip


def bytes_of(text: str) -> int:
    """Bytes of a quantity such as ``96Gi``.

    Raises:
        ValueError: the text is not a quantity.
    """
    if not re.fullmatch(QUANTITY_PATTERN, text):
        raise ValueError(f"not a quantity: {text!r} (like 96Gi, 80G)")
    number = re.match(r"[0-9.]+", text)
    digits = number.group() if number else ""
    return round(float(digits) * _FACTORS[text[len(digits) :]])


def size(value: float) -> str:
    """Bytes for a reader: GiB, below one GiB MiB, below one MiB KiB."""
    if abs(value) >= GIB:
        return f"{value / GIB:.1f} GiB"
    if abs(value) >= MIB:
        return f"{value / MIB:.1f} MiB"
    return f"{value / 1024:.1f} KiB"
