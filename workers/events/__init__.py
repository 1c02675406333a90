"""The part of events in an EventJob: filters, expressions, the route of an event and the texts that its Job gets.

Pure. Scalers route events with it, controllers fill Jobs, and the admission rules check manifests.
"""
