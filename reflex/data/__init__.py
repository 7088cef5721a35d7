"""Labelled rows and the deterministic ways to divide them."""

from reflex.data.rows import (
    Row,
    items_sha256,
    parse_label,
    question_to_json,
    read_jsonl,
    rows_sha256,
    write_jsonl,
)
from reflex.data.splits import HALVES, hash_order, split_of, stable_fraction, stable_hash

__all__ = [
    "HALVES",
    "Row",
    "hash_order",
    "items_sha256",
    "parse_label",
    "question_to_json",
    "read_jsonl",
    "rows_sha256",
    "split_of",
    "stable_fraction",
    "stable_hash",
    "write_jsonl",
]
