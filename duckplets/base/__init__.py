"""What every room stands on: checks of arguments, arrays, prefetch, progress."""
