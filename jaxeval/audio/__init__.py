"""Audio in and out, its lengths, log-mel features, and what can be measured of it; only `log_mel` imports jax."""
