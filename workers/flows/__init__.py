"""The language of JobFlows, for whoever judges one and for whoever runs it: what it runs, and its expressions."""
