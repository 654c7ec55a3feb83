"""What text is worth keeping: metrics of texts, thresholds, and the gates that they make.

    texts ─measure→ metrics ─decide(thresholds)→ accepted, or rejected by a gate and a rule

The decision that matters: measuring and deciding are two steps. Metrics are counts that follow
from the text alone and are stored with every row; a decision is a function of them and of
thresholds. So other thresholds are applied without the texts, and a reason can always be shown.
"""
