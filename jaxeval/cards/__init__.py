"""Audio cards: their schema and their files."""
