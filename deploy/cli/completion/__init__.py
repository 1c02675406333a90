"""Shell completion: the command that prints the scripts, and the candidates for names of objects, namespaces and kinds.

Only `deploy.cli` may import it. Its modules import nothing heavy at their top: the shell waits for each key press.
"""
