"""abps: good deterministic policies in few episodes (Augmented Bayesian Policy Search and its peers)."""

__version__ = "0.1.0"
