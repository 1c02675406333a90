"""Sources that are asked over HTTP."""
