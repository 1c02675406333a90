"""Resolves the texts that triggers get from authenticationRefs, environments, files and Vault servers. `triggers` and
`polling` import it; it imports no source.
"""
