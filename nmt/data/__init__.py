"""The prepared corpus, the epoch plan and batches."""
