"""How the requests of a mix are shared between its modes: by best marginal rate, as the fluid model fills them."""

from bisect import bisect_left
from itertools import pairwise

from mtpilot.policy.fluid import FluidFleet, envelope

from .driver import Site

Share = tuple[float, float]  # requests that run in each replica of one mode, and its tok/s


class Sharing:
    """Shares of one fleet; tables are made when first asked for and kept."""

    def __init__(self, site: Site) -> None:
        self._corners = (envelope(site.curves.mtp), envelope(site.curves.batch))
        fleet = FluidFleet(site.curves, 1, by_latency=False)
        self._alone = (fleet.of(1, 0), fleet.of(0, 1))
        self._tables: dict[tuple[int, int], tuple[list[float], list[float]]] = {}

    def of(self, mtp: int, batch: int, running: float) -> tuple[Share, Share]:
        """Of each mtp and each batch replica, with `running` requests in all."""
        if (mtp, batch) not in self._tables:
            self._tables[mtp, batch] = self._table(mtp, batch)
        total, in_mtp = self._tables[mtp, batch]
        i = min(bisect_left(total, running), len(total) - 1)
        part = in_mtp[i]
        if i > 0 and running < total[i]:
            part -= (in_mtp[i] - in_mtp[i - 1]) * (total[i] - running) / (total[i] - total[i - 1])
        shares = (part / mtp if mtp else 0.0, max(min(running, total[-1]) - part, 0.0) / batch if batch else 0.0)
        return (shares[0], self._alone[0].rate(shares[0])), (shares[1], self._alone[1].rate(shares[1]))

    def _table(self, mtp: int, batch: int) -> tuple[list[float], list[float]]:
        """(requests of the mix, of them in mtp replicas) at each corner."""
        pieces = []
        for mode, count in enumerate((mtp, batch)):
            corners = self._corners[mode] if count else ()
            pieces += [((y1 - y0) / (x1 - x0), mode, (x1 - x0) * count) for (x0, y0), (x1, y1) in pairwise(corners)]
        total, in_mtp = [0.0], [0.0]
        for _, mode, width in sorted(pieces, key=lambda piece: (-piece[0], piece[1])):
            total.append(total[-1] + width)
            in_mtp.append(in_mtp[-1] + (width if mode == 0 else 0.0))
        return total, in_mtp
