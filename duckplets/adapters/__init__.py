"""Adapters for Hugging Face and PyTorch, imported on use."""
