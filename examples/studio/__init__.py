"""The Research Report Studio: a topic and sources in, a cited Markdown report out.

`workflow` holds the steps; everything else is pure functions that the steps call, in the order of the work: `sources`
lists documents, `extract` turns one into blocks of text, `passages` numbers them, `planning` asks the questions,
`ranking` scores, `writing` drafts, `review` checks every citation against its source.
"""
