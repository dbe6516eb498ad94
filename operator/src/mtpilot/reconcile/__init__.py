"""plan(snapshot, now) -> Plan: the product, as one pure function.

Production, `mtpilot plan -f snapshot.yaml` and the tests call this same function; everything it looks at is in the snapshot.
"""

from .compose import plan

__all__ = ["plan"]
