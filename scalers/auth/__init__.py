"""Resolves the texts that triggers get from authenticationRefs, environments, files and Vault servers. It imports no
source.
"""
