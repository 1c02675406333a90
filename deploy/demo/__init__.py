"""`make demo`: one Job per file of a Redis list, on an embedded cluster.

Only the tests and benchmarks may import it; `deploy.cli.processes` starts it as a module.
"""
