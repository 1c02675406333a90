"""Measures how the source reads: `make house` prints the table. Nothing outside this folder imports it."""
