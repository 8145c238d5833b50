"""Configuration group `search`: a search for hyperparameters, for sweeps."""

from nmt.config.fields import checked_dataclass, option


@checked_dataclass
class SearchConfig:
    """A sweep whose runs are the trials of one Optuna study, stored in the folder of the sweep."""

    space: str = option("", free=True)
    """Keys to search, separated by spaces; each in Hydra's syntax, without spaces inside:
    `KEY=interval(LOW,HIGH)`, `KEY=tag(log,interval(LOW,HIGH))`, `KEY=range(FIRST,END,STEP)` or
    `KEY=choice(A,B)`; `KEY=int(interval(LOW,HIGH))` for whole numbers."""
    trial: int = option(0, ge=0, le=100_000, free=True)
    """Number of a trial, from 1; 0: no search. A sweep lists trials: `search.trial=range(1,25)`."""
    prune: bool = option(True, free=True)
    """Stop a trial whose best validation loss so far is above the median of the complete trials at
    the same update; never before five trials are complete, or at its first or last validation."""
