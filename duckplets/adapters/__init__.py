"""Training frameworks: Hugging Face and PyTorch, imported only where asked for."""
