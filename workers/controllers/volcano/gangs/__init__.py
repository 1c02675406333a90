"""Gang admission: which PodGroups may start, and what becomes of those that did."""
