"""keda.sh/v1alpha1 ScaledObject: one module per rule."""
