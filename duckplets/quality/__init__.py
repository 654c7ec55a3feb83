"""What text is worth keeping, and what is there twice: metrics, thresholds, gates, near-duplicates.

    texts ─measure→ metrics ─decide(thresholds)→ accepted, or rejected by a gate and a rule
    records ─n-grams→ clusters of near-duplicates, texts that an evaluation set has too

Measuring and deciding are two steps. Metrics are counts that follow
from the text alone and are stored with every row; a decision is a function of them and of
thresholds. So other thresholds are applied without the texts, and a reason can always be shown.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # who uses it says where logs go
