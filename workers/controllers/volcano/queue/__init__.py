"""Queue: states, commands, hierarchy and counters."""
