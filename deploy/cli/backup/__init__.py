"""`penstock backup` and `penstock restore`."""
