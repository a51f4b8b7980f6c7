"""Pairs of original and edited audio: building them from captioned clips, and reading them."""
