"""Backup and restore of what lives in the broker alone (docs/backup.md), without what the cluster shows."""
