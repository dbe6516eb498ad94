"""The requests of a batch, ready to send."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from .bodies import body
from .markers import Row, instruction, row
from .planning import Batch, Settings, length, requests_of
from .prompts import TOKENS_PER_CHARACTER, Prompts
from .recording import Sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Composer:
    """Composes for one run. weights: tokens per character of each domain, as the engines count them."""

    run_id: str
    settings: Settings
    prompts: Prompts
    weights: dict[str, float] = field(default_factory=dict)

    def rows(self, batch: Batch) -> list[Row]:
        """The rows of a batch; batches of one shape in several modes have the same."""
        return [row(self.run_id, batch.shape, index) for index in range(requests_of(self.settings, batch))]

    def markers(self, batches: Sequence[Batch]) -> frozenset[str]:
        """All markers that a run gives out."""
        return frozenset(row.marker for batch in batches for row in self.rows(batch))

    def requests(self, batch: Batch, model: str, *, output_tokens: int | None = None) -> list[Sent]:
        """All requests of a batch, by their index. output_tokens: instead of the planned."""
        return [self._request(batch, model, row, index, output_tokens) for index, row in enumerate(self.rows(batch))]

    def _request(self, batch: Batch, model: str, of: Row, index: int, output_tokens: int | None) -> Sent:
        wanted = length(self.settings, batch, index)
        number = index + batch.repeat
        head = instruction(of)
        draw = random.Random(f"{self.settings.seed}/{batch.shape}/{index}")
        domain = self.prompts.domains[number % len(self.prompts.domains)]
        room = wanted.input_tokens - round(len(head) * self.weights.get(domain, TOKENS_PER_CHARACTER))
        prompt = self.prompts.prompt(number, max(1, room), self.weights, draw)
        text = f"{head}\n\n{prompt.text}"
        asked = output_tokens or wanted.output_tokens
        return Sent(
            index=index,
            row=of,
            domain=prompt.domain,
            prompt=text,
            asked_tokens=asked,
            body=body(
                batch.endpoint,
                model=model,
                prompt=text,
                sampling=batch.sampling,
                output_tokens=asked,
                whole_length=self.settings.whole_length,
            ),
        )
