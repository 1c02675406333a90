"""JobFlow: entries that become Jobs in the order of what they depend on. `decide` orders the modules beside it."""
