"""What a test of forks starts."""
