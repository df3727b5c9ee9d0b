/* train.c - trains a network on a folder of images, twice, with Convoy's engine in this program.
 *
 *     make example                     # builds build/example and runs it
 *     cc -I trainer/engine/include -o build/train \
 *         examples/train.c build/libconvoy.a $(make -s libs)
 *     build/train IMAGES RUN           # IMAGES/train and IMAGES/val hold a folder a class
 *     mpirun -n 2 build/train IMAGES RUN
 *
 * The first engine trains and stops itself in the middle; the second one goes on from its
 * checkpoint to the end. */
#include <convoy.h>
#include <stdio.h>

#define SETTINGS 11

typedef struct Run {
    int rank;
    double stop_at; /* the step; 0: none */
    double steps, first_loss, last_loss, top1;
} Run;

static int on_step(void *self, const ConvoyRecord *record)
{
    Run *run = self;
    const double step = convoy_number(record, "step");
    run->last_loss = convoy_number(record, "loss");
    if (run->steps++ == 0) run->first_loss = run->last_loss;
    if (run->rank == 0)
        printf("step %.0f: loss %.4f, %.0f images/s\n", step, run->last_loss,
               convoy_number(record, "images_per_s"));
    return step == run->stop_at;
}

static int on_eval(void *self, const ConvoyRecord *record)
{
    Run *run = self;
    run->top1 = convoy_number(record, "top1");
    if (run->rank == 0) printf("top-1 %.1f %%\n", 100 * run->top1);
    return 0;
}

static int on_checkpoint(void *self, const ConvoyRecord *record)
{
    (void)self;
    printf("saved %s\n", convoy_text(record, "path"));
    return 0;
}

/* Returns what convoy_train() did. */
static int train(ConvoyRanks *ranks, const char *images, const char *folder, Run *run)
{
    char data[1024], val[1024], dir[1024];
    const char *settings[SETTINGS] = { data,
                                       val,
                                       dir,
                                       "model.name=resnet20",
                                       "data.image_size=32",
                                       "data.eval_resize=32",
                                       "data.augment=cifar",
                                       "train.epochs=2",
                                       "train.batch_per_rank=32",
                                       "schedule.warmup_epochs=0",
                                       "optimizer.lr=0.1" };
    const ConvoyEvents events = {
        .self = run, .step = on_step, .eval = on_eval, .checkpoint = on_checkpoint
    };
    ConvoyEngine *engine = NULL;
    snprintf(data, sizeof data, "data.train=%s/train", images);
    snprintf(val, sizeof val, "data.val=%s/val", images);
    snprintf(dir, sizeof dir, "run.dir=%s", folder);
    int code = convoy_open(&engine, ranks, NULL, settings, SETTINGS);
    if (code == CONVOY_OK) code = convoy_train(engine, &events);
    if (code != CONVOY_OK && run->rank == 0) printf("%s\n", convoy_message());
    convoy_close(engine);
    return code;
}

int main(int argc, char **argv)
{
    ConvoyRanks *ranks = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: train IMAGES RUN\n");
        return CONVOY_USAGE;
    }
    int code = convoy_join(&ranks);
    if (code != CONVOY_OK) {
        fprintf(stderr, "train: error: %s\n", convoy_message());
        return code;
    }
    Run first = { .rank = convoy_rank(ranks), .stop_at = 5 }, second = { .rank = first.rank };
    code = train(ranks, argv[1], argv[2], &first);
    if (code == CONVOY_STOPPED) code = train(ranks, argv[1], argv[2], &second);
    if (code == CONVOY_OK && first.rank == 0)
        printf("convoy %s on %d rank%s: %.0f + %.0f steps, loss %.2f to %.2f, top-1 %.1f %%\n",
               convoy_version(), convoy_world(ranks), convoy_world(ranks) == 1 ? "" : "s",
               first.steps, second.steps, first.first_loss, second.last_loss, 100 * second.top1);
    convoy_leave(ranks);
    return code;
}
