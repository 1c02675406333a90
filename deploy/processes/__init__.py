"""The main functions and command lines of the processes that run Penstock.

Only `deploy` may import it.
"""
