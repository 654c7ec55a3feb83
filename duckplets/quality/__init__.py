"""Quality of text and duplicates: metrics, thresholds, gates, near-duplicates."""

# Metrics follow from the text alone and are stored with every row. A decision is a function of
# metrics and thresholds. So other thresholds need no texts, and a reason can always be shown.

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())  # the application sets handlers
