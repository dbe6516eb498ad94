"""Digests of rendered objects: equal renderings have equal digests, whatever built them.

A template's digest decides whether a replica is restarted, so it hangs on the rendered content alone: never on key order,
on the operator's version or on what the API server fills in. tests/golden holds known values.
"""

import hashlib
import json
from copy import deepcopy
from typing import Any

from mtpilot.model.names import ANNOTATION_DIGEST, LABEL_SLOT, LABEL_TEMPLATE_DIGEST
from mtpilot.model.snapshot import Manifest

DIGEST_LENGTH = 12


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces. Raises TypeError or ValueError for what JSON cannot say (NaN, sets)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """12 hex characters of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:DIGEST_LENGTH]


def pod_template_digest(template: Manifest) -> str:
    """Digest of a pod template without its own digest label and without the slot's name: one value for all slots of a mode."""
    plain = deepcopy(template)
    labels = plain.get("metadata", {}).get("labels", {})
    labels.pop(LABEL_TEMPLATE_DIGEST, None)
    labels.pop(LABEL_SLOT, None)
    return digest(plain)


def object_digest(manifest: Manifest) -> str:
    """Digest of an object without its digest annotation."""
    plain = deepcopy(manifest)
    metadata = plain.get("metadata", {})
    annotations = metadata.get("annotations", {})
    annotations.pop(ANNOTATION_DIGEST, None)
    if not annotations:
        metadata.pop("annotations", None)
    return digest(plain)


def with_digest(manifest: Manifest) -> Manifest:
    """A copy that carries its own digest in ANNOTATION_DIGEST; an older digest is replaced."""
    stamped = deepcopy(manifest)
    stamped["metadata"].setdefault("annotations", {})[ANNOTATION_DIGEST] = object_digest(manifest)
    return stamped
