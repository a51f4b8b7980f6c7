"""The study of structured captions: measured cards, an audit of judges and baselines, and how far judges agree."""
