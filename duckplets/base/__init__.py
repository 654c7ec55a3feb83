"""What every room stands on: checks of arguments, arrays, lookahead, progress."""
