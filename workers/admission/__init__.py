"""What objects are filled in with, and what of them is refused, before anybody acts on them: pure functions."""
