"""``penstock doctor``: facts about this machine, the broker and the cluster, and what is wrong with them.

`facts` asks, `checks` judges without asking anything, and `command` prints.
"""
