"""From text to spans: what a user sets, and the arithmetic over bytes that cuts and cleans."""
