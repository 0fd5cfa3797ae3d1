"""Answer from own literature, steered by keywords: WeiseEule."""
