"""The agent's own metrics and whether it is ready: what tells a healthy gateway from one that routes by an old picture."""

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from .pods import ServerState
from .waiting import PriorityClass


@dataclass(slots=True)
class AgentMetrics:
    """Metrics of one agent, in a registry of their own."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    servers: Gauge = field(init=False)
    unplaced: Gauge = field(init=False)
    haproxy_up: Gauge = field(init=False)
    commands: Counter = field(init=False)
    failures: Counter = field(init=False)
    pods_seen: Gauge = field(init=False)
    synced: Gauge = field(init=False)
    limit: Gauge = field(init=False)
    waiting: Gauge = field(init=False)
    waiting_seconds: Gauge = field(init=False)
    reaction: Histogram = field(init=False)

    def __post_init__(self) -> None:
        registry = self.registry
        self.servers = Gauge("mtpilot_gateway_servers", "Servers of the pool by state", ["state"], registry=registry)
        self.unplaced = Gauge("mtpilot_gateway_unplaced_pods", "Ready pods without a server", registry=registry)
        self.haproxy_up = Gauge("mtpilot_gateway_haproxy_up", "1 while HAProxy's admin socket answers", registry=registry)
        self.commands = Counter("mtpilot_gateway_commands", "Runtime commands sent to HAProxy", registry=registry)
        self.failures = Counter("mtpilot_gateway_sync_failures", "Syncs that did not reach the desired servers", registry=registry)
        self.pods_seen = Gauge("mtpilot_gateway_pods_seen_timestamp_seconds", "When pods were last listed or changed", registry=registry)
        self.synced = Gauge("mtpilot_gateway_synced_timestamp_seconds", "When HAProxy last agreed with the pods", registry=registry)
        self.limit = Gauge(
            "mtpilot_gateway_contention_limit", "Requests an mtp replica takes before the batch replicas do; 0: no limit", registry=registry
        )
        self.waiting = Gauge(
            "mtpilot_gateway_waiting_requests",
            "Requests without a server, by class: queued, or waiting for a replica to come",
            ["class"],
            registry=registry,
        )
        self.waiting_seconds = Gauge(
            "mtpilot_gateway_waiting_seconds",
            "Age of the oldest request without a server, by class; 0: none waits",
            ["class"],
            registry=registry,
        )
        self.reaction = Histogram(
            "mtpilot_gateway_reaction_seconds",
            "From a change of the pods to HAProxy having it",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
            registry=registry,
        )
        for state in ServerState:
            self.servers.labels(state=state.value)
        for priority in PriorityClass:
            self.waiting.labels(priority.value)
            self.waiting_seconds.labels(priority.value)
