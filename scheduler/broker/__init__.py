"""Penstock's own broker: its address, and the clients that are made of it. Nothing else reads a broker's URL."""
