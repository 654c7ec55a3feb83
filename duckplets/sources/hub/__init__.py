"""Data sets on the Hugging Face Hub: ``HubSource`` and lists of them.

grammar     lines and lists of lines
download    requests, tries and files written aside (failures: what to say when they fail)
layout      which files make up a configuration and a split (card: what the README says)
cache       shards on disk under a limit (arrivals: one ahead of reading)
reading     rows and marks (shards: one of them, labels: names of classes)
source      all of it as a source
"""

from duckplets.sources.hub.source import HubSource, read_hub_list

__all__ = ["HubSource", "read_hub_list"]
