#!/usr/bin/env bash
# torchmetrics 1.9.0: Accuracy(task="multiclass") and MulticlassAccuracy, the class that it makes,
# have different defaults: the share of right answers, or the mean over classes of each one's share.
#
# Where 90 of 100 pictures are of class 0, and everything is called 0, one says 0.9 and the other
# 0.5. Precision, Recall, F1Score and Specificity differ in the same way; the functions in
# torchmetrics.functional too. A mean over classes leaves out classes without pictures or answers,
# so a network that names a class that is not in the set lowers it.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 torchdata==0.11.0 torchmetrics==1.9.0 numpy==2.4.6

cat > "$STATED" << 'END'
Accuracy(task): 0.9000, MulticlassAccuracy: 0.5000, one is a MulticlassAccuracy
Precision(task): 0.9000, MulticlassPrecision: 0.4500, one is a MulticlassPrecision
Recall(task): 0.9000, MulticlassRecall: 0.5000, one is a MulticlassRecall
F1Score(task): 0.9000, MulticlassF1Score: 0.4737, one is a MulticlassF1Score
Specificity(task): 0.9000, MulticlassSpecificity: 0.5000, one is a MulticlassSpecificity
functional.accuracy: 0.9000, functional.classification.multiclass_accuracy: 0.5000
3 classes, none of class 2, one answer 2: 0.3296
END
"$bin/python" > "$SEEN" << 'END'
import warnings

warnings.simplefilter("ignore")
import torch
import torchmetrics
from torchmetrics import classification, functional

answers = torch.zeros(100, dtype=torch.long)
classes = torch.tensor([0] * 90 + [1] * 10)
for name in ("Accuracy", "Precision", "Recall", "F1Score", "Specificity"):
    general = getattr(torchmetrics, name)(task="multiclass", num_classes=2)
    special = getattr(classification, "Multiclass" + name)(num_classes=2)
    print("%s(task): %.4f, Multiclass%s: %.4f, one is a %s" % (
        name, general(answers, classes), name, special(answers, classes), type(general).__name__))
print("functional.accuracy: %.4f, functional.classification.multiclass_accuracy: %.4f" % (
    functional.accuracy(answers, classes, "multiclass", num_classes=2),
    functional.classification.multiclass_accuracy(answers, classes, num_classes=2)))
answers[0] = 2
print("3 classes, none of class 2, one answer 2: %.4f" %
      classification.MulticlassAccuracy(num_classes=3)(answers, classes))
END
compare
