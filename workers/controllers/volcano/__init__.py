"""The controllers of Volcano's kinds.

`volcano_controllers` joins them for the registry. The package itself imports nothing: the API server and the command
line, which need single modules, start without the others.
"""
