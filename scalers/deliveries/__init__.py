"""Deliveries: the events of a channel, one delivery per event and EventJob, from its arrival to its end.

Polling routes and claims them; the gateway, the page and the command line read them. Nothing here decides.
"""
