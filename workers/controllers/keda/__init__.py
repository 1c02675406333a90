"""What ScaledJob and ScaledObject have in common, as KEDA writes it: conditions, statuses, lists of users."""
