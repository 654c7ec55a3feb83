"""From positions to numbers: permutations, exact shares and ranks; arithmetic without I/O."""
