"""Measurements: ratios within one run, never a test. `python -m benchmarks` for ours, `python -m benchmarks.peers` beside peers."""
