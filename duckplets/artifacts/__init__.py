"""Files that can always be made anew: arrays that are mapped into memory."""
