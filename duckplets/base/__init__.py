"""What every room stands on: checks of arguments, arrays, looking ahead, progress."""
