"""How SGLang divides a GPU: the static share, its default, and what the pools may take of it."""

from dataclasses import dataclass

from .errors import DoesNotFit, NotCovered
from .launch import Launch
from .quantity import GIB, MIB, size
from .shape import LatentAttention, ModelShape

# Of the device, before weights are loaded: CUDA context, and with several ranks NCCL and the all-reduce buffers.
# Measured: 0.7 GiB (one RTX PRO 6000), 2.0 GiB (H20, TP), 2.3 and 3.1 GiB (H200, TP8).
RUNTIME_GIB_ONE_RANK = 0.75
RUNTIME_GIB_MANY_RANKS = 2.3

_MULTIMODAL_RESERVE = 100 * MIB  # SGLANG_VLM_CACHE_SIZE_MB; features travel through host memory on one node

# Upper bound of GPU memory in MiB → chunked prefill size, decode batch of the largest graph with TP < 4, with TP ≥ 4.
_BY_MEMORY_MIB: tuple[tuple[float, int, int, int], ...] = (
    (20 * 1024, 2048, 8, 8),
    (35 * 1024, 4096, 48, 160),
    (60 * 1024, 4096, 32, 160),
    (90 * 1024, 8192, 256, 512),
    (160 * 1024, 8192, 256, 512),
    (float("inf"), 16384, 512, 512),
)
_FLOOR_ABOVE_MIB, _FLOOR_MIB = 60 * 1024, 10 * 1024
_LATENT_PREFILL_MIB = 1536


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU: its memory, and what is free before weights are loaded, where that is known."""

    memory_bytes: int
    free_before_load_bytes: int | None = None


def free_before_load(gpu: Gpu, tp_size: int) -> float:
    """Free bytes before the weights (`Load weight begin. avail mem`): given, or the memory less a measured mean of the runtime's.

    Raises:
        NotCovered: nothing is free, as where a size was written without its unit.
    """
    runtime = (RUNTIME_GIB_ONE_RANK if tp_size == 1 else RUNTIME_GIB_MANY_RANKS) * GIB
    free = gpu.memory_bytes - runtime if gpu.free_before_load_bytes is None else gpu.free_before_load_bytes
    if free <= 0:
        problem = f"{gpu.memory_bytes} bytes are not above the {size(runtime)} that the runtime takes; a size has a unit, like 96Gi"
        raise NotCovered("spec.gpu.memory", problem)
    return free


def graph_reserve_mib(shape: ModelShape, launch: Launch, gpu: Gpu) -> float:
    """Memory that the default keeps for CUDA graphs, in MiB: 2 for each request of the largest decode graph, and 8 for each
    captured prefill size, or 1536 for latent attention.

    Speculation adds nothing of its own; an explicit --max-running-requests caps the decode batch, SGLang's default of 48 does
    not, because it is set later.

    Source: `arg_groups/memory_hook.py: handle_gpu_memory_settings, reserve_for_graph_mb`,
    `arg_groups/cuda_graph_hook.py: generate_prefill_cuda_graph_batch_sizes`.
    """
    latent = isinstance(shape.attention, LatentAttention)
    _, decode = _sizes(launch, gpu)
    return 2 * decode + (_LATENT_PREFILL_MIB if latent else 8 * _prefill_captures(_prefill_most(launch, gpu)))


def default_mem_fraction(shape: ModelShape, launch: Launch, gpu: Gpu) -> float:
    """--mem-fraction-static where it is not given: (memory − reserve) / memory, to three digits.

    reserve (MiB) = 512 + 1.5 × max(chunked prefill, 2048) + TP / 8 × 1024 + graphs, at least 10240 above 60 GiB. With a vision
    tower the result is multiplied by 0.95 and a factor of the tower's size.

    Source: `arg_groups/memory_hook.py: handle_gpu_memory_settings, adjust_mem_fraction_for_vlm`.
    """
    memory = gpu.memory_bytes / MIB
    chunk, _ = _sizes(launch, gpu)
    reserve = 512 + 1.5 * max(chunk if chunk > 0 else 16384, 2048) + launch.tp_size / 8 * 1024 + graph_reserve_mib(shape, launch, gpu)
    if memory > _FLOOR_ABOVE_MIB:
        reserve = max(reserve, _FLOOR_MIB)
    return round((memory - reserve) / memory, 3) * _vision_factor(shape)


def mem_fraction(shape: ModelShape, launch: Launch, gpu: Gpu) -> float:
    return launch.mem_fraction_static if launch.mem_fraction_static is not None else default_mem_fraction(shape, launch, gpu)


def rest_bytes(shape: ModelShape, launch: Launch, gpu: Gpu, weights_bytes: float) -> float:
    """What states and KV cache may take: free after the weights of target **and draft**, less free-before × (1 − fraction).

    Source: `mem_cache/kv_cache_configurator.py: _profile_available_bytes`.

    Raises:
        DoesNotFit: the weights fill the static share; says the least fraction that would do.
        NotCovered: as `free_before_load`.
    """
    free, fraction = free_before_load(gpu, launch.tp_size), mem_fraction(shape, launch, gpu)
    rest = free * fraction - weights_bytes - (_MULTIMODAL_RESERVE if shape.multimodal else 0)
    if rest <= 0:
        least = weights_bytes / free
        advice = f"raise it above {least:.3f}" if least < 0.99 else "use more GPUs or a smaller quantisation"
        raise DoesNotFit(
            f"weights of {size(weights_bytes)} leave nothing for the KV cache with --mem-fraction-static {fraction:.3f} "
            f"of {size(free)}: {advice}"
        )
    return rest


def _sizes(launch: Launch, gpu: Gpu) -> tuple[int, int]:
    """(chunked prefill size, batch of the largest decode graph)."""
    memory = gpu.memory_bytes / MIB
    chunk, few, many = next(row[1:] for row in _BY_MEMORY_MIB if memory < row[0])
    decode = few if launch.tp_size < 4 else many
    if launch.max_running_requests is not None:
        decode = min(decode, launch.max_running_requests)
    if launch.cuda_graph_max_bs_decode is not None:
        decode = launch.cuda_graph_max_bs_decode
    return (launch.chunked_prefill_size if launch.chunked_prefill_size is not None else chunk), decode


def _prefill_most(launch: Launch, gpu: Gpu) -> int:
    chunk, _ = _sizes(launch, gpu)
    return min(chunk, launch.max_total_tokens) if launch.max_total_tokens is not None else chunk


def _prefill_captures(most: int) -> int:
    ranges = ((4, 33, 4), (48, 257, 16), (288, 513, 32), (576, 1025, 64), (1280, 4097, 256), (4608, most + 1, 512))
    return sum(1 for start, stop, step in ranges for captured in range(start, stop, step) if captured <= most)


def _vision_factor(shape: ModelShape) -> float:
    if shape.vision is None or not shape.multimodal:
        return 1.0
    complexity = shape.vision.default_layers * shape.vision.default_hidden_size**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1 - 0.1 * (complexity - 1)))
