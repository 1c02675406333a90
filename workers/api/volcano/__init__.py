"""Volcano's kinds as typed models."""
