"""KEDA's protocol of external scalers, in both directions."""
