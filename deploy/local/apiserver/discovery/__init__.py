"""The served resources and their description: the registry, CustomResourceDefinitions, OpenAPI.

Admission and handlers import it; it joins schemas, strategies and stored objects.
"""
