"""The workers: cluster objects, decisions on them, and the processes that carry the decisions out.

Scalers and deploy may import them; scheduler may not.
"""
