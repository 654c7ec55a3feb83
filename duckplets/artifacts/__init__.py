"""Derived files that can always be rebuilt: mapped arrays and the manifests that name them."""
