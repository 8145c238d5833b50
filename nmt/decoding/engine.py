"""What turns source ids into hypotheses; `Translator` works with any engine."""

from collections.abc import Callable, Sequence
from typing import Protocol

from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.task import Demand


class Engine(Protocol):
    """Searches translations of source ids with one model and one search configuration."""

    def search(
        self,
        sources: Sequence[Sequence[int]],
        progress: Callable[[int], None] | None = None,
        demands: Sequence[Demand] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search any number of sources; the engine batches them as it likes.

        Args:
            sources: ids of each source without EOS, none of them empty or longer than the model
                allows.
            progress: called with the number of sources just done.
            demands: what the translation of each source has to have, and must not have; None asks
                nothing. An engine that cannot meet them says so by a UserError.

        Returns:
            For each source, in the order given, up to num_best hypotheses, best first; at least
            one.
        """
