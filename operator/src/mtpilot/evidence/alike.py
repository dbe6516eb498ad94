"""Whether two engines may be compared: what differs between them, and whether the mode alone explains it.

Two modes differ by their drafting, which is the question; by their limits, which a reader must know; and by nothing else. Everything else
makes the comparison one of unlike things. What only names, connects or observes an engine does not count.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Any

from .environment import Engine, Environment

# Names, addresses, keys, logs, seeds and metrics, by their names in SGLang's /server_info: engines of the same speed differ in them.
_WITHOUT_EFFECT = frozenset(
    (
        "admin_api_key", "api_key", "base_gpu_id", "bucket_e2e_request_latency", "bucket_inter_token_latency", "bucket_time_to_first_token",
        "crash_dump_folder", "decode_log_interval", "dist_init_addr", "enable_metrics", "enable_metrics_for_all_schedulers",
        "extra_metric_labels", "host", "http2_max_concurrent_streams", "load_publish_endpoint",
        "load_snapshot_publish_interval", "log_level", "log_level_http", "log_requests", "log_requests_format", "log_requests_level",
        "log_requests_target", "nccl_port", "port", "random_seed", "served_model_name", "show_time_cost", "tokenizer_path",
        "weight_version",
    )
)  # fmt: skip
_DRAFTING_PREFIXES = ("speculative_", "_speculative_", "spec_", "decoupled_spec_")
_DRAFTING = frozenset(("enable_multi_layer_eagle", "enable_linear_replayssm_spec"))
# What drafting or the mode's own limits change, by SGLang's own resolution or by the InferenceService's modes.
_LIMITS = frozenset(
    (
        "cuda_graph_bs_decode", "cuda_graph_config", "cuda_graph_max_bs_decode", "max_mamba_cache_size", "max_running_requests",
        "max_total_tokens", "mem_fraction_static", "pp_max_micro_batch_size",
    )
)  # fmt: skip
_SHOWN_CHARACTERS = 60


class Kind(StrEnum):
    """What a difference means for a comparison."""

    DRAFTING = "drafting"  # what the two modes are about
    LIMIT = "limit"  # slots and memory: part of the mode, but no drafting
    UNLIKE = "unlike"  # something else: the figures say nothing about the modes


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that differs. `field` is its name in the environment, `here` and `there` are the values as JSON, cut where long."""

    field: str
    kind: Kind
    here: str
    there: str

    @property
    def words(self) -> str:
        """Like `mem_fraction_static: 0.8 and 0.85`."""
        return f"{self.field}: {self.here} and {self.there}"


def engine_differences(here: Engine, there: Engine) -> tuple[Difference, ...]:
    """What differs between two engines, by rising name.

    Of two engines in the same mode everything that differs is UNLIKE, drafting too; limits stay limits.
    """
    one, other = _facts(here), _facts(there)
    alike_modes = here.mode == there.mode
    found = []
    for name in sorted(one.keys() | other.keys()):
        mine, theirs = one.get(name), other.get(name)
        if mine != theirs:
            kind = _kind(name.removeprefix("arguments."), alike_modes=alike_modes)
            found.append(Difference(field=name, kind=kind, here=_shown(mine), there=_shown(theirs)))
    return tuple(found)


def unlike_words(engines: Sequence[Engine]) -> list[str]:
    """What makes engines unlike, a sentence for each pair of them that differs in more than its modes' drafting; empty: nothing."""
    return _words_of(engines, Kind.UNLIKE, "differ in more than drafting")


def limit_words(engines: Sequence[Engine]) -> list[str]:
    """Limits that differ, which is no fault but explains a part of what is measured."""
    return _words_of(engines, Kind.LIMIT, "have other limits, which is a part of the difference")


def _words_of(engines: Sequence[Engine], kind: Kind, say: str) -> list[str]:
    """A sentence for each pair of engines that differ in something of this kind."""
    found = []
    for here, there in combinations(engines, 2):
        words = [difference.words for difference in engine_differences(here, there) if difference.kind is kind]
        if words:
            found.append(f"{name_of(here)} and {name_of(there)} {say}: {'; '.join(words)}")
    return found


def run_differences(here: Environment, there: Environment) -> tuple[Difference, ...]:
    """What differs between two runs besides their engines: how acceptance was had, and the parameters of the load."""
    one = {"acceptance": here.acceptance, **{f"plan.{key}": value for key, value in here.plan.items()}}
    other = {"acceptance": there.acceptance, **{f"plan.{key}": value for key, value in there.plan.items()}}
    return tuple(
        Difference(field=name, kind=Kind.UNLIKE, here=_shown(one.get(name)), there=_shown(other.get(name)))
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    )


def name_of(engine: Engine) -> str:
    """Like `mtp (direct)`."""
    return f"{engine.mode} ({engine.route})"


def _facts(engine: Engine) -> dict[str, Any]:
    """What is compared. Not the route: it says where the requests went through, and records of two routes are never joined."""
    named = {name: getattr(engine, name) for name in ("engine", "model", "hardware_class", "image", "slots")}
    return named | {f"arguments.{key}": value for key, value in _plain(engine.arguments).items() if key not in _WITHOUT_EFFECT}


def _kind(name: str, *, alike_modes: bool) -> Kind:
    if name in _LIMITS or name == "slots":
        return Kind.LIMIT
    drafting = name in _DRAFTING or name.startswith(_DRAFTING_PREFIXES)
    return Kind.DRAFTING if drafting and not alike_modes else Kind.UNLIKE


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON has it: a tuple is a list."""
    return dict(json.loads(json.dumps(arguments, default=str)))


def _shown(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
