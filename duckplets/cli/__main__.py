"""``python -m duckplets.cli``: the command line where the script is not installed."""

from duckplets.cli import main

main()
