"""JobFlow: entries that become Jobs in the order of their dependencies.

The registry imports its controller; the tests import `phases`.
"""
