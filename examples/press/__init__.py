"""The press: a small outside system with receipts, keys and faults, which effects are proven against."""
