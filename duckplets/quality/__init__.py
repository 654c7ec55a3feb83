"""Quality of text and duplicates: metrics, thresholds, gates, near-duplicates.

texts ─measure→ metrics ─decide(thresholds)→ accepted, or rejected by a gate and a rule
records ─n-grams→ clusters of near-duplicates, texts that an evaluation set has too

Measuring and deciding are separate. Metrics are counts that follow from the text alone and are
stored with every row; a decision is a function of metrics and thresholds. So other thresholds need
no texts, and a reason can always be shown.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # the application sets handlers
