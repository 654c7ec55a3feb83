"""Adapters for training frameworks, Hugging Face and PyTorch, imported on use."""
