"""``penstock top``: objects, their Jobs and the pipeline, live in a terminal or once as a table.

Only `deploy.cli` may import it. Only `top_screen` imports textual.
"""
