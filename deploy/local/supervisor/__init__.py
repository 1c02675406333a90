"""The supervisor of the local processes, and the guard that ends them when it is killed.

`up` and the kubelet import it; it knows nothing of clusters.
"""
