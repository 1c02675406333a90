"""Backup and restore of a real broker."""
