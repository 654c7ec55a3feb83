"""Read data sets on the Hugging Face Hub: ``HubSource`` and lists of them.

grammar     lines and lists of lines
source      a line as a source of rows
download    requests to a hub, files written aside, and what to say when they fail
card        what the README says about files and columns
layout      which files make up a configuration and a split
reading     rows and marks, shard by shard
"""

from duckplets.sources.hub.source import HubSource, read_hub_lines, read_hub_list

__all__ = ["HubSource", "read_hub_lines", "read_hub_list"]
