"""vcctl's verbs: ``penstock job``, ``queue``, ``flow`` and ``template``, and what `describe` knows of Volcano's kinds.

Flags, columns and the objects that are made are those of vcctl, so that either tool works where the other does.
"""
