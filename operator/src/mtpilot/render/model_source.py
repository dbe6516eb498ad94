"""Where the engine finds a model, and what it calls it.

Users write one form of source (api.md); SGLang takes a hub id, a local path or a URL. The cache volume is mounted at one
fixed place, so that a path in a spec means the same on a claim and on a host path.
"""

from mtpilot.api.model import ModelSpec

from .errors import InvalidArguments

CACHE_PATH = "/models"
HUB_SCHEME = "hf://"


def resolve_source(source: str, *, cached: bool, field: str) -> str:
    """`--model-path` for a source: hf://ORG/NAME → ORG/NAME; /PATH → below the cache's mount, or as it is without a cache.

    Another scheme (s3://…) and a relative path go to SGLang unchanged.

    Raises:
        InvalidArguments: the source leads out of the cache, or names no model.
    """
    path = source.removeprefix(HUB_SCHEME) if source.startswith(HUB_SCHEME) else source
    parts = path.split("/")
    if ".." in parts:
        raise InvalidArguments(field, f"{source!r} must not contain '..'")
    if not any(parts) or (source.startswith(HUB_SCHEME) and (len(parts) != 2 or not all(parts))):
        raise InvalidArguments(field, f"{source!r} names no model (hf://ORG/NAME, /PATH below the cache, or s3://…)")
    if path.startswith("/") and cached:
        return f"{CACHE_PATH}/{path.strip('/')}"
    return path


def served_name(model: ModelSpec) -> str:
    """The name that requests use: `servedName`, or else the last part of the source."""
    return model.served_name or model.source.rstrip("/").rsplit("/", 1)[-1]
