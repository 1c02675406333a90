"""The rules of a pod's spec, alone and in the template of a workload. Strategies of kinds with a template, and admission
of Volcano's Jobs, import `podspec`; the other modules are its parts.
"""
