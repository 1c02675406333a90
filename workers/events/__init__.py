"""What an EventJob makes of an event: filters, expressions, its route and the texts that its Job gets.

Pure. Scalers route events with it, controllers fill Jobs, and the admission rules check manifests.
"""
