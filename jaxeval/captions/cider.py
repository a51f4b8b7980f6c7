"""CIDEr-D of captions: n-grams weighted by how telling they are, compared with every reference.

Vedantam et al., "CIDEr: Consensus-based Image Description Evaluation", CVPR 2015, in the variant D that the captioning
field reports (pycocoevalcap): weights of the candidate are clipped to the reference's, a Gaussian of the difference in
length (sigma 6) punishes padding, the mean over n = 1..4 and over the references is multiplied by 10. No stemming.

What to know before reading a number:

- The weight of an n-gram is its count times `log(items / items whose references have it)`, from the references of the
  set that is scored. So a value depends on the whole set: scores of one system alone and of several pooled differ, and
  so do those of a subset.
- On one item every weight is log 1 = 0, and so is the score. The same holds where all items have the same references.
- A candidate equal to its only reference scores 10 only from four tokens on: three tokens have no 4-gram, which counts
  as 0, and give 7.5; two give 5, one 2.5. N-grams that every item has weigh nothing and can cost a whole order too.
- Lengths are counted in pairs of tokens, as in the original: a caption of n tokens has length max(0, n - 1).
- Values lie between 0 and 10.
"""

from __future__ import annotations

import numpy as np

from jaxeval.captions.ngrams import Counts, NGrams
from jaxeval.captions.score import Score, mean_score

SIGMA = 6.0
SCALE = 10.0


def cider_d(ngrams: NGrams) -> Score:
    """CIDEr-D of each item, and the mean; document frequencies come from the references given."""
    items = len(ngrams.candidate_length)
    orders = zip(ngrams.candidates, ngrams.references, strict=True)
    similarity = np.mean([_cosine(mine, theirs, ngrams) for mine, theirs in orders], axis=0)
    candidate, reference = (np.maximum(0, n - 1) for n in (ngrams.candidate_length, ngrams.reference_length))
    difference = candidate[ngrams.item] - reference
    similarity *= np.exp(-(difference**2) / (2 * SIGMA**2))
    total = np.bincount(ngrams.item, similarity, minlength=items)
    return mean_score(SCALE * total / np.bincount(ngrams.item, minlength=items))


def _cosine(candidates: Counts, references: Counts, ngrams: NGrams) -> np.ndarray:
    """[references] clipped cosine of a reference and its item's candidate, over the n-grams of one order."""
    items, rows = len(ngrams.candidate_length), len(ngrams.item)
    item = ngrams.item[references.row]
    documents = np.unique(item * references.distinct + references.gram) % max(1, references.distinct)
    frequency = np.bincount(documents, minlength=references.distinct)
    telling = np.log(items) - np.log(np.maximum(1, frequency))
    mine, theirs = candidates.count * telling[candidates.gram], references.count * telling[references.gram]
    clipped = np.minimum(candidates.look_up(item, references.gram, mine), theirs)
    product = np.bincount(references.row, clipped * theirs, minlength=rows)
    norm_mine = np.sqrt(np.bincount(candidates.row, mine**2, minlength=items))
    norm_theirs = np.sqrt(np.bincount(references.row, theirs**2, minlength=rows))
    scale = norm_mine[ngrams.item] * norm_theirs
    return np.divide(product, scale, out=np.zeros(rows), where=scale > 0)
