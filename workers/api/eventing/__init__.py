"""The EventJob and the settings of pushes over HTTP, as typed models.

All rooms may import them, as the other kinds of `workers.api`.
"""
