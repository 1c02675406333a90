"""The files of a release, made from a tag: ``python -m deploy.release`` (docs/releasing.md).

Every file has the same bytes whenever and wherever it is made from the same commit.
"""
