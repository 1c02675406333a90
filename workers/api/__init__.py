"""Models and vocabulary of the Kubernetes API: kinds, typed manifests, names, quantities, times and the CRDs.

Only errors and logs stand below it in `workers`: it knows none of the other rooms.
"""
