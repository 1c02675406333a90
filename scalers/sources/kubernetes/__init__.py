"""What the cluster itself tells."""
