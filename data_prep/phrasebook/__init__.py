"""A generated corpus of everyday sentences, in English with German or French."""
