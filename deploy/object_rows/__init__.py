"""Rows: an object of the cluster in one line, derived from its body alone, by kind.

The page and `penstock top` show them: an object is in one state, in the same word. `derivation` is the way in.
`failure_reasons`, `queue_order` and `schedules` are rules that other commands show, too; nothing here knows the
command line.
"""
