"""BLEU, chrF, TER and COMET, significance tests, known test sets, phenomena."""
