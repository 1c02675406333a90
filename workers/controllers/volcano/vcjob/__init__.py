"""Volcano's Job: tasks of pods that start together and share one fate."""
