"""The gateway: events that senders push over HTTP, from the request to the channel in the broker.

`deploy` alone may import it. It measures nothing and decides nothing about Jobs.
"""
