"""What turns source ids into hypotheses; `Translator` works with any engine."""

from collections.abc import Callable, Sequence
from typing import Protocol

from nmt.decoding.search import Hypothesis


class Engine(Protocol):
    """Searches translations of source ids with one model and one search configuration."""

    def search(
        self,
        sources: Sequence[Sequence[int]],
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search any number of sources; the engine batches them as it likes.

        Args:
            sources: ids of each source without EOS, none of them empty or longer than the model
                allows.
            progress: called with the number of sources just done.

        Returns:
            For each source, in the order given, up to num_best hypotheses, best first; at least
            one.
        """
