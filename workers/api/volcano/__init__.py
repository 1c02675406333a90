"""Typed models of Volcano's kinds; the CRDs are generated from them.

Every package may import it.
"""
