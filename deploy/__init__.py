"""The programs around the workers: the `penstock` command, the processes, the embedded cluster, the webhook, the demos.

Neither `workers` nor `scalers` may import it.
"""
