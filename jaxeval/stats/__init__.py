"""Statistics of scores: trends, equivalence, paired differences, and verdicts made of them. No model code, no jax."""
