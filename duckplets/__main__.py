"""``python -m duckplets``: the command line without the installed script."""

from duckplets.cli import main

main()
