#!/usr/bin/env bash
# scikit-learn 1.9.1: top_k_accuracy_score(k=1) and accuracy_score of the arg max disagree where
# scores are tied: the first takes the last of the best classes, NumPy's argmax the first.
#
# Scores in bfloat16 are often tied: of 20,000 rows of 1,000 normal scores, 508 have two or more
# best ones, and the two accuracies differ by 0.2 points. Of a network that gives every class the
# same score (a last layer of zeros) one function says that it always finds class 0 and the other
# that it always finds class 9.
source "$(dirname "$0")/common.sh"
packages scikit-learn==1.9.1 numpy==2.4.6 ml_dtypes==0.6.0

cat > "$STATED" << 'END'
same score for 10 classes, all of class 0: arg max is right in 100 of 100, top 1 in 0
same score for 10 classes, all of class 9: arg max is right in 0 of 100, top 1 in 100
rows of bfloat16 scores with a tie at the top: 508
float32: arg max is right in 20000 of 20000, top 1 in 20000
bfloat16: arg max is right in 19765 of 20000, top 1 in 19725
END
"$bin/python" > "$SEEN" << 'END'
import ml_dtypes
import numpy as np
from sklearn.metrics import accuracy_score, top_k_accuracy_score


def tell(title, scores, classes):
    best = accuracy_score(classes, scores.argmax(1), normalize=False)
    top = top_k_accuracy_score(classes, scores, k=1, normalize=False,
                               labels=range(scores.shape[1]))
    print("%s: arg max is right in %d of %d, top 1 in %d" % (title, best, len(classes), top))


tell("same score for 10 classes, all of class 0", np.zeros((100, 10)), np.zeros(100, int))
tell("same score for 10 classes, all of class 9", np.zeros((100, 10)), np.full(100, 9))
random = np.random.Generator(np.random.Philox(1))
exact = 2 * random.standard_normal((20000, 1000), np.float32)
classes = exact.argmax(1)
rounded = exact.astype(ml_dtypes.bfloat16).astype(np.float32)
ties = (rounded == rounded.max(1, keepdims=True)).sum(1) > 1
print("rows of bfloat16 scores with a tie at the top: %d" % ties.sum())
tell("float32", exact, classes)
tell("bfloat16", rounded, classes)
END
compare
