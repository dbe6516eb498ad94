"""What every plot shares: its colours, and how it becomes PNG bytes.

Imports matplotlib (the extra `analysis`) only where a figure is drawn. Drawn without a display.
"""

import io
from typing import TYPE_CHECKING

from mtpilot.api.inference_service import Mode

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MTP, BATCH = "#2f6fb3", "#d9822b"
MODE_COLOURS = {Mode.MTP: MTP, Mode.BATCH: BATCH}
AWAY, OFFERED = "#b8b8b8", "#444444"
OPERATOR, WARNING = "#2e8b57", "#cc4444"
_DOTS_PER_INCH = 110


def png(figure: "Figure") -> bytes:
    """Render a figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    target = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(target, format="png", dpi=_DOTS_PER_INCH)
    return target.getvalue()
