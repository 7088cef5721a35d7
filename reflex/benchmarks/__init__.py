"""Suites of labelled rows to measure on."""

from reflex.benchmarks.base import Benchmark, Suite, limited
from reflex.benchmarks.human_ratings import HumanRatings

__all__ = ["Benchmark", "HumanRatings", "Suite", "limited"]
