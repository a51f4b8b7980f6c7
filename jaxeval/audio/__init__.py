"""Audio in and out, its lengths, log-mel features and loudness; only `log_mel` imports jax."""
