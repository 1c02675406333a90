"""A soak: work of every kind, faults of every kind, and an account that must come out even (`make soak MINUTES=10`)."""
