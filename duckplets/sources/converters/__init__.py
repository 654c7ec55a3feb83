"""Convert instruction data to messages, by the built-in converters or the user's own."""
