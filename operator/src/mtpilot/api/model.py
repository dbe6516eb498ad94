"""spec.model of an InferenceService: which weights, and where they come from."""

from pydantic import Field

from .types import ApiModel


class SecretKey(ApiModel):
    """A key of a Secret in the service's namespace."""

    name: str = Field(min_length=1, max_length=253, description="Name of the Secret")
    key: str = Field(default="token", min_length=1, max_length=253, description="Key in its data")


class ModelCache(ApiModel):
    """Where weights are kept between starts; exactly one of the two."""

    persistent_volume_claim: str | None = Field(default=None, min_length=1, max_length=253, description="A claim in the same namespace")
    host_path: str | None = Field(default=None, pattern=r"^/.*", max_length=1024, description="A directory of the node, absolute")


class ModelSpec(ApiModel):
    """The model and where its weights come from."""

    source: str = Field(min_length=1, max_length=1024, description="hf://ORG/NAME, /PATH below the cache, or s3://BUCKET/PATH")
    revision: str | None = Field(default=None, min_length=1, max_length=128, description="Commit, tag or branch at the hub")
    served_name: str | None = Field(
        default=None, min_length=1, max_length=128, description="Name in requests; default: the last part of source"
    )
    context_length: int | None = Field(
        default=None, ge=128, le=16_777_216, description="Longest context of a request; default: the model's own"
    )
    cache: ModelCache | None = Field(default=None, description="Where weights are kept between starts")
    token_secret: SecretKey | None = Field(default=None, description="Token of the model hub")
