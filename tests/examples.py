"""How many examples a property is tried with.

Few in the fast suite, which has to answer within a minute on two cores; as many as MTPILOT_EXAMPLES says where it is set:
`make test-fast MTPILOT_EXAMPLES=300`. Without a deadline: a busy machine is no fault of the code.
"""

import os
from collections.abc import Sequence

from hypothesis import HealthCheck, settings

USUAL = 25


def examples(usual: int = USUAL, *, suppress: Sequence[HealthCheck] = ()) -> settings:
    """Settings for one property, as a decorator; `usual` is the number of the fast suite."""
    count = int(os.environ.get("MTPILOT_EXAMPLES", usual))
    return settings(max_examples=count, deadline=None, suppress_health_check=suppress)
