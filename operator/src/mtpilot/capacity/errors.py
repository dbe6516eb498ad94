"""What cannot be estimated, by the field that says so."""


class NotCovered(ValueError):  # noqa: N818 - the words of the message
    """A model config or an argument that these formulas do not describe; `field` is its path in the file or its flag."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class DoesNotFit(ValueError):  # noqa: N818 - the words of the message
    """The engine would stop at its start: nothing is left for KV cache or state. The message says what to change."""
