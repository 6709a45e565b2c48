"""The reference pages of the documentation, rendered from the code, so that they can't say anything else.

`python -m stanchion.testing.reference --write` writes `docs/reference/`, `--check` compares it and fails with a diff.
One module renders one page, or a few that belong together; `pages.py` lists them.
"""
