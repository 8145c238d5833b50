"""Run folders: their only reader. A folder may be of untrusted origin, or incomplete."""

from nmt.run_folder.records import CostRecord, Status, describe_cost, parse_record, series
from nmt.run_folder.run import Run
from nmt.run_folder.stored_texts import StoredTexts

__all__ = [
    "CostRecord",
    "Run",
    "Status",
    "StoredTexts",
    "describe_cost",
    "parse_record",
    "series",
]
