"""Fixtures of the fault tests."""
