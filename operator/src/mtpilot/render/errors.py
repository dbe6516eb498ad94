"""What the renderer refuses: a spec that the API server accepts but that cannot become a working pod.

CEL sees one object and no list of SGLang's flags. What is left for here names the field to change, so that the message can
go into a condition as it is.
"""


class InvalidArguments(ValueError):  # noqa: N818 - the name of the condition reason
    """The rendered engine could not start. `field` is the path a user has to change, `problem` says why."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class InvalidOverlay(InvalidArguments):
    """The pod template overlay touches something that the rollout, the gateway or the drain rely on."""
