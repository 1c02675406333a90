"""`penstock webhook`: the rules of Volcano's kinds for a real API server, which asks before it stores an object."""
