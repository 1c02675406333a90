"""Sources that are asked by a query of a database."""
