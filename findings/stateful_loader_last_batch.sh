#!/usr/bin/env bash
# torchdata 0.11.0, StatefulDataLoader: a state taken after the last batch of an epoch resumes with
# an epoch of no batches.
#
# A loop that saves every N steps, inside the loop over batches, does that whenever an epoch's last
# step is a multiple of N. The next iteration then ends at once, and counts as an epoch; the one
# after it goes on as the run without a stop. A state taken after the loop over the same batches has
# no empty epoch. And the same seed gives other orders with workers than without: their first epoch
# is the second one of the loader without workers.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 torchdata==0.11.0 torchmetrics==1.9.0 numpy==2.4.6

cat > "$STATED" << 'END'
0 workers, without a stop: 6 7 4 1 3 9 0 2 8 5 | 1 8 9 2 5 4 6 0 7 3 | 1 3 2 5 0 4 8 6 7 9
0 workers, state after batch 2: 8 5 | 1 8 9 2 5 4 6 0 7 3
0 workers, state after batch 3:  | 1 8 9 2 5 4 6 0 7 3
0 workers, state after the loop: 1 8 9 2 5 4 6 0 7 3 | 1 3 2 5 0 4 8 6 7 9
2 workers, without a stop: 1 8 9 2 5 4 6 0 7 3 | 8 1 7 9 0 5 4 2 3 6 | 3 5 1 2 7 9 0 4 6 8
2 workers, state after batch 2: 7 3 | 8 1 7 9 0 5 4 2 3 6
2 workers, state after batch 3:  | 8 1 7 9 0 5 4 2 3 6
2 workers, state after the loop: 8 1 7 9 0 5 4 2 3 6 | 3 5 1 2 7 9 0 4 6 8
END
"$bin/python" > "$SEEN" << 'END'
import warnings

warnings.simplefilter("ignore")
import torch
from torchdata.stateful_dataloader import StatefulDataLoader


def loader(workers):
    return StatefulDataLoader(range(10), batch_size=4, shuffle=True, num_workers=workers)


def epochs(data, count):
    return " | ".join(" ".join(str(int(i)) for batch in data for i in batch) for _ in range(count))


for workers in (0, 2):
    torch.manual_seed(1)
    print("%d workers, without a stop: %s" % (workers, epochs(loader(workers), 3)))
    for batches in (2, 3, 4):
        torch.manual_seed(1)
        data = loader(workers)
        it = iter(data)
        for _ in range(batches):
            next(it, None)
        state = data.state_dict()
        torch.manual_seed(99)
        data = loader(workers)
        data.load_state_dict(state)
        print("%d workers, state after %s: %s" % (
            workers, "batch %d" % batches if batches < 4 else "the loop", epochs(data, 2)))
END
compare
