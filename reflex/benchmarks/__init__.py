"""Suites of labelled rows to measure on."""
