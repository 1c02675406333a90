"""The rules of a pod's spec, alone and in the template of a workload: `podspec`, and the modules that are its parts.

Strategies of kinds with a template, and admission of Volcano's Jobs, import `podspec`.
"""
