"""The REST control plane: one module per resource, thin over store and router."""
