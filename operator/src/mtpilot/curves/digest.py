"""Digest of a profile's curves, by which a fit knows the points that it was made from."""

import json
from collections.abc import Sequence
from hashlib import sha256

from mtpilot.api.throughput_profile import Curve


def points_digest(curves: Sequence[Curve]) -> str:
    """sha256 in hex over mode, context, slots, accept length and points; the order of the curves does not count."""
    ordered = sorted(curves, key=lambda curve: (curve.mode, curve.context_tokens))
    documents = [curve.model_dump(mode="json", by_alias=True, exclude_none=True) for curve in ordered]
    return sha256(json.dumps(documents, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
