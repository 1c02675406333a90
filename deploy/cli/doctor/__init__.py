"""``penstock doctor``: facts about this machine, the broker and the cluster, and what is wrong with them.

`facts` asks, `verdicts` judges without asking anything, and `doctor` prints.
"""
