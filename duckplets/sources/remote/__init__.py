"""Remote sources: objects of stores, and data sets on the Hugging Face Hub."""
