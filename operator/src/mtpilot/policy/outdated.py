"""What was seen against other curves, or of another template, is forgotten.

A level says how far the engines of one template are from one pair of curves; a new profile or another context is another scale,
and other arguments are another engine. While a template is rolled out, or has failed and the old one serves on, the replicas
that run are seen, whatever they carry: a rate that is there is better than none. What is forgotten is learned again in minutes.
"""

import hashlib
from functools import lru_cache

from mtpilot.api.inference_service import Mode
from mtpilot.api.status import PolicyState
from mtpilot.curves.curve import CurvePair, ThroughputCurve
from mtpilot.model.decision import FleetState

from .memory import Fields

DIGEST_LENGTH = 12
_OF_MTP: Fields = {"mtp_level": None, "mtp_level_weight": None, "accept_length": None, "drift_seconds": 0}
_OF_BATCH: Fields = {"batch_level": None, "batch_level_weight": None, "drift_seconds": 0}
_BY_CURVES: Fields = {"regret_batch": None, "regret_to_batch": None, "regret_to_mtp": None}  # what a step would have saved by them


def without_outdated(state: PolicyState, curves: CurvePair, fleet: FleetState) -> PolicyState:
    """The state with the digests of what is in use now, and without what belongs to others.

    A digest that is missing, in the state or of the fleet, forgets nothing.
    """
    fields: Fields = {}
    known = curves_digest(curves)
    if state.curves_digest not in (None, known):
        fields |= _OF_MTP | _OF_BATCH | _BY_CURVES
    mtp, batch = fleet.mtp_digest or state.mtp_template, fleet.batch_digest or state.batch_template
    if state.mtp_template not in (None, mtp):
        fields |= _OF_MTP | {"mtp_slots": None}
    if state.batch_template not in (None, batch):
        fields |= _OF_BATCH | {"batch_slots": None}
    in_use = (known, mtp, batch)
    if (state.curves_digest, state.mtp_template, state.batch_template) == in_use:
        return state
    return state.model_copy(update=fields | {"curves_digest": known, "mtp_template": mtp, "batch_template": batch})


@lru_cache(maxsize=256)
def curves_digest(curves: CurvePair) -> str:
    """12 hex characters over both curves and their accept length, to six digits: a fit on another machine is the same fit."""
    numbers = [_digits(curves.of(mode)) for mode in Mode]
    return hashlib.sha256(repr((numbers, f"{curves.accept_length or 0.0:.6g}")).encode()).hexdigest()[:DIGEST_LENGTH]


def _digits(curve: ThroughputCurve) -> list[str]:
    return [f"{number:.6g}" for number in (*curve.concurrency, *curve.tokens_per_second)]
