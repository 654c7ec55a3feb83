"""Files that can always be made anew: mapped arrays, and the manifests that name them."""
