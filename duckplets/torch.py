"""PyTorch datasets over a corpus or token shards; see ``duckplets.adapters.torch``."""

from duckplets.adapters.torch import SamplerDataset as SamplerDataset
from duckplets.adapters.torch import TokenDataset as TokenDataset
