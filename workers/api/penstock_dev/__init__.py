"""Typed models of Penstock's own kinds: EventJob and the settings of pushes over HTTP, ScheduledJob, ScalePolicy.

All rooms may import them, as the other kinds of `workers.api`.
"""
