"""What one of several gateways may use of a replica: its part of the slots and of the contention limit.

Gateways do not talk to each other. Each knows how many there are and which of them it is, from the same pods, so the parts
add up without a message.
"""

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One gateway among `gateways`; `rank` counts from 0 in an order that all of them see."""

    gateways: int = 1
    rank: int = 0

    def of_slots(self, slots: int) -> int:
        """Requests at a time; the parts may add up to `gateways - 1` more than there are, since a slot left idle costs more."""
        return max(1, ceil(slots / self.gateways))

    def of_limit(self, limit: int, turn: int) -> int:
        """The part of a contention limit: all parts together are exactly the limit, so some may be 0.

        turn: the replica's number; what does not divide goes to other gateways at the next replica.
        """
        whole, rest = divmod(limit, self.gateways)
        return whole + (1 if (self.rank + turn) % self.gateways < rest else 0)
