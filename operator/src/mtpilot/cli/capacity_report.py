"""What `mtpilot capacity` found, as a JSON document and as a table made of the same document."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtpilot.capacity.compare import Comparison, Remedy
    from mtpilot.capacity.estimate import ModeCapacity, Subject

_DIGITS = 3


def document(subject: "Subject", found: "Comparison", gpus: int) -> dict[str, Any]:
    """Both modes as plain data; sizes in bytes, on one GPU."""
    used = found.mtp.launch.tp_size
    notes = [f"--tp-size {used} uses {used} of the replica's {gpus} GPUs"] if used != gpus else []
    if subject.weights_bytes is None:
        notes.append("weights are counted from the config, within a few per cent: --weights takes the measured value")
    return {
        "model": subject.shape.architecture,
        "gpus": gpus,
        "gpuMemoryBytes": subject.gpu.memory_bytes,
        "requestTokens": {"input": subject.input_tokens, "output": subject.output_tokens},
        "modes": {"mtp": _mode(found.mtp, found.mtp_remedy), "batch": _mode(found.batch, found.batch_remedy)},
        "notes": [*notes, *(f"{mode.mode.value}: {note}" for mode in (found.mtp, found.batch) for note in mode.notes)],
        "conclusion": found.conclusion,
    }


def _mode(capacity: "ModeCapacity", remedy: "Remedy | None") -> dict[str, Any]:
    states = capacity.states
    return {
        "weightsBytes": round(capacity.weights.target),
        "draftWeightsBytes": round(capacity.weights.draft),
        "memFractionStatic": round(capacity.mem_fraction, _DIGITS),
        "poolBytes": round(capacity.rest_bytes),
        "kvCellBytes": {"target": capacity.cell.target, "draft": capacity.cell.draft, "uncounted": capacity.cell.uncounted},
        "kvTokens": capacity.kv_tokens,
        "stateSlots": None
        if states is None
        else {
            "slots": states.slots,
            "perRequest": states.per_request,
            "slotBytes": states.slot_bytes,
            "requests": states.requests,
            "draftStatesBytes": states.drafts_bytes,
        },
        "requestedSlots": capacity.launch.requested_slots,
        "engineSlots": capacity.slots.engine,
        "effectiveSlots": capacity.slots.usable,
        "requestTokens": capacity.request_tokens,
        "binds": capacity.slots.limit.value,
        "remedy": {"text": remedy.text, "slots": remedy.slots} if remedy is not None else None,
    }


def show(result: dict[str, Any]) -> None:
    """The table, the notes and the conclusion."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=False)
    gpus, memory = result["gpus"], _size(result["gpuMemoryBytes"])
    table = Table(title=f"{result['model']}, a replica of {gpus} × {memory}; sizes on one GPU", title_justify="left", title_style="bold")
    table.add_column("")
    table.add_column("mtp", justify="right")
    table.add_column("batch", justify="right")
    modes = [result["modes"]["mtp"], result["modes"]["batch"]]
    for title, cell in _ROWS:
        table.add_row(title, *(cell(mode) for mode in modes))
    console.print(table)
    for note in result["notes"]:
        console.print(f"note: {note}", markup=False, soft_wrap=True)
    console.print(result["conclusion"], markup=False, style="bold", soft_wrap=True)


def _size(value: int) -> str:
    from mtpilot.capacity.quantity import size

    return size(value)


def _cell(mode: dict[str, Any]) -> str:
    cell = mode["kvCellBytes"]
    draft = f" + {_size(cell['draft'])} draft" if cell["draft"] else ""
    return f"{_size(cell['target'])}{draft} a token"


def _states(mode: dict[str, Any]) -> str:
    states = mode["stateSlots"]
    if states is None:
        return "–"
    return f"{states['slots']} of {_size(states['slotBytes'])}, {states['perRequest']} a request"


def _remedy(mode: dict[str, Any]) -> str:
    remedy = mode["remedy"]
    return f"{remedy['text']}: {remedy['slots']} slots" if remedy is not None else "–"


def _binds(mode: dict[str, Any]) -> str:
    from mtpilot.capacity.limits import Limit

    return Limit(mode["binds"]).words


_ROWS = (
    ("weights", lambda mode: _size(mode["weightsBytes"])),
    ("draft weights", lambda mode: _size(mode["draftWeightsBytes"]) if mode["draftWeightsBytes"] else "–"),
    ("static share", lambda mode: f"{mode['memFractionStatic']:.3f}"),
    ("left for states and KV cache", lambda mode: _size(mode["poolBytes"])),
    ("KV cell", _cell),
    ("KV tokens", lambda mode: f"{mode['kvTokens']:,}".replace(",", " ")),
    ("state slots", _states),
    ("slots asked for", lambda mode: str(mode["requestedSlots"] or "SGLang's default")),
    ("slots of the engine", lambda mode: str(mode["engineSlots"])),
    ("effective slots", lambda mode: f"{mode['effectiveSlots']} (requests of {mode['requestTokens']} tokens)"),
    ("what binds", _binds),
    ("first remedy", _remedy),
)
