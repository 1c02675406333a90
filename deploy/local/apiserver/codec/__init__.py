"""Decoding and encoding: JSON, YAML and protobuf bodies, built-in types, selectors, and the words of field errors.

The lowest layer of the API server: every other folder may import it.
"""
