"""Sources in the Kubernetes API: ConfigMaps, Secrets and pods."""
