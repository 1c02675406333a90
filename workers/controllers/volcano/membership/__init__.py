"""PodGroups of ordinary pods."""
