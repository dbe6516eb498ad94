"""spec.gateway of an InferenceService: queue, keys, TLS, and which replica takes a request."""

from enum import StrEnum

from pydantic import Field

from .types import ApiModel, Duration


class Affinity(StrEnum):
    """What is kept together on one replica; the engine's prefix cache then serves it again."""

    NONE = "None"
    CONVERSATION = "Conversation"


class ContentionSpec(ApiModel):
    """Which mode takes a request while both serve."""

    limit: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Requests in flight that an mtp replica takes before the batch replicas do; default: the crossover of the profile in "
        "use, without one no limit",
    )


class ApiKeysSpec(ApiModel):
    """Who may use the gateway: requests need one of these keys as bearer token."""

    secret_name: str = Field(
        min_length=1, max_length=253, description="A Secret in the same namespace; each item of its data is a client's name and its key"
    )
    max_concurrent_requests: int | None = Field(
        default=None, ge=1, le=8000, description="Most requests of one key at a time, waiting ones included; more are refused with 429"
    )


class TlsSpec(ApiModel):
    """TLS in front of the gateway."""

    secret_name: str = Field(
        min_length=1,
        max_length=253,
        description="A Secret of type kubernetes.io/tls in the same namespace; a renewed one is taken up as it is",
    )


class GatewaySpec(ApiModel):
    """The proxy in front of the replicas."""

    replicas: int = Field(default=2, ge=1, le=8, description="Gateway pods")
    queue_timeout: Duration = Field(default="2m", description="Longest wait of a request for a slot; 1s to 1h")
    queue_length: int = Field(
        default=1000, ge=1, le=8000, description="Most requests that wait at one gateway pod; more are refused with 429"
    )
    batch_queue_length: int = Field(
        default=500,
        ge=1,
        le=8000,
        description="The same for requests of class batch (header x-mtpilot-priority: batch), which wait behind all others",
    )
    affinity: Affinity = Field(
        default=Affinity.NONE,
        description="Conversation: requests of one conversation go to the replica that served it last, while that has a free slot",
    )
    api_keys: ApiKeysSpec | None = Field(default=None, description="Who may use the gateway; default: everybody who reaches it")
    tls: TlsSpec | None = Field(default=None, description="HTTPS on port 443 of the Service, with HTTP/2; default: HTTP on port 80")
    contention: ContentionSpec = Field(default=ContentionSpec(), description="Which mode takes a request while both serve")
