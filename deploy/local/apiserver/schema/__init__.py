"""Schemas of built-in kinds and of CustomResourceDefinitions, with their defaults.

Discovery, strategies and admission import it; it uses only the codec.
"""
