"""``penstock check``: how objects of KEDA, Kubernetes and Volcano would behave under Penstock, before a switch.

`inventory` collects the objects, `judgment` judges them one by one without changing anything, `differences` has what
depends on an object's content, and `check` prints.
"""
