/* test_config.c - the table of keys, YAML and --set, error messages, and the dump. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "kernels/op.h"
#include "tests/test.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/config/config_internal.h"
#include <stdio.h>
#include <string.h>

static void in_scratch(char out[512], const char *name)
{
    snprintf(out, 512, "%s/%s", test_scratch(), name);
}

/* Loads text as the file t.yaml, with up to one --set (NULL: none). */
static Status load_text(Config **out, const char *text, const char *set)
{
    char path[512];
    in_scratch(path, "t.yaml");
    CHECK_OK(fs_write_atomic(path, text, strlen(text)));
    return config_load(out, path, &set, set ? 1 : 0);
}

/* Demands that text is refused with a sentence that holds part. */
static void check_refused(const char *text, const char *part)
{
    Config *c = NULL;
    Status status = load_text(&c, text, NULL);
    CHECK_STATUS(status, ERR_USAGE);
    CHECK(c == NULL);
    if (status != OK) CHECK_CONTAINS(status_message(), part);
    config_destroy(c);
}

static void check_set_refused(const char *set, const char *part)
{
    Config *c = NULL;
    CHECK_STATUS(config_load(&c, NULL, &set, 1), ERR_USAGE);
    CHECK(c == NULL);
    CHECK_CONTAINS(status_message(), part);
    config_destroy(c);
}

/* ---- the table ---- */

TEST(rows_are_complete)
{
    for (int i = 0; i < config_key_count; i++) {
        const ConfigKey *k = &config_keys[i];
        CHECK(config_find_key(k->key) == i); /* no key twice */
        CHECK(k->help && strlen(k->help) > 8);
        CHECK(k->help[strlen(k->help) - 1] != '.');
        CHECK(strchr(k->help, '|') == NULL); /* would break the table in docs/config.md */
        bool math = k->flags & KEY_MATH, runtime = k->flags & KEY_RUNTIME;
        CHECK(math != runtime);
        CHECK((k->type == KEY_ENUM) == (k->names != NULL));
        CHECK(k->names ||
              ((!k->other || k->type == KEY_INT || k->type == KEY_DOUBLE || k->type == KEY_LIST) &&
               k->name_count == 0));
        if (k->type == KEY_INT || k->type == KEY_DOUBLE || k->type == KEY_LIST)
            CHECK(k->min < k->max);
        const char *dot = strchr(k->key, '.');
        CHECK(dot != NULL && strchr(dot + 1, '.') == NULL);
    }
}

TEST(sections_are_contiguous)
{
    for (int i = 0; i < config_key_count; i++) {
        size_t n = (size_t)(strchr(config_keys[i].key, '.') - config_keys[i].key) + 1;
        bool left = false; /* the section has ended */
        for (int j = i + 1; j < config_key_count; j++) {
            bool same = strncmp(config_keys[i].key, config_keys[j].key, n) == 0;
            CHECK(!(same && left));
            if (!same) left = true;
        }
    }
}

/* A default outside its range, or not of its type, fails here by name. */
TEST(defaults_are_in_range)
{
    Config *c = mem_calloc(1, sizeof *c);
    REQUIRE(c != NULL);
    for (int i = 0; i < config_key_count; i++)
        CHECK_OK(config_set_text(c, &config_keys[i], config_keys[i].fallback, "default: "));
    config_destroy(c);
    CHECK_OK(config_load(&c, NULL, NULL, 0));
    config_destroy(c);
}

/* A name that an owner's list lacks, or a list that is shorter than its enum, fails here. */
TEST(every_word_of_an_enum_key_is_set_and_printed)
{
    Config *c = NULL;
    REQUIRE_OK(config_load(&c, NULL, NULL, 0));
    for (int i = 0; i < config_key_count; i++) {
        const ConfigKey *k = &config_keys[i];
        const char *words[CONFIG_WORDS_MAX];
        if (k->type != KEY_ENUM) continue;
        const int count = config_key_words(k, words);
        CHECK(k->name_count > 1);
        /* evaluation draws nothing at random, so its key says one word less than there is */
        if (strcmp(k->key, "data.interpolation") != 0) CHECK(k->names[k->name_count] == NULL);
        for (int w = 0; w < count; w++) {
            StrBuf text = { 0 };
            REQUIRE(words[w] != NULL);
            for (int v = 0; v < w; v++) CHECK(strcmp(words[v], words[w]) != 0);
            CHECK_OK(config_set_text(c, k, words[w], ""));
            CHECK_INT(*(const int *)(const void *)((const char *)c + k->offset),
                      k->other ? w - 1 : w);
            config_add_value(c, k, &text);
            CHECK_STR(text.text, words[w]);
            str_free(&text);
        }
    }
    config_destroy(c);
}

/* ---- reading ---- */

TEST(every_type_is_read)
{
    Config *c = NULL;
    REQUIRE_OK(load_text(&c,
                         "# a comment\nmodel: {name: resnet20, zero_init_last_gamma: yes}\ndata:\n "
                         " train: \"a b\"\n  std: 0.5, 1, 2\n  mean: [0.1, .2, 3e-1]\n  val: "
                         "~\ntrain.epochs: 1.5\noptimizer:\n  name: adam\nlog:\nschedule:\n  "
                         "milestones: []\n",
                         "train.seed=9007199254740991"));
    CHECK_STR(c->model.name, "resnet20");
    CHECK(c->model.zero_init_last_gamma);
    CHECK_STR(c->data.train, "a b");
    CHECK_STR(c->data.val, "");
    CHECK_INT(c->data.std.count, 3);
    CHECK_NEAR(c->data.std.values[1], 1, 0);
    CHECK_INT(c->data.mean.count, 3);
    CHECK_NEAR(c->data.mean.values[2], 0.3, 0);
    CHECK_NEAR(c->train.epochs, 1.5, 0);
    CHECK_INT(c->train.seed, 9007199254740991);
    CHECK_INT(c->optimizer.name, UPDATE_ADAM);
    CHECK_INT(c->schedule.milestones.count, 0);
    CHECK_INT(c->log.every, 1);
    CHECK_STR(c->run.dir, "runs/t");
    config_destroy(c);
}

TEST(empty_files_are_all_defaults)
{
    static const char *const texts[] = { "", "# nothing\n", "---\n", "{}\n", "train:\n" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        Config *c = NULL;
        REQUIRE_OK(load_text(&c, texts[i], NULL));
        CHECK_STR(c->model.name, "resnet50");
        CHECK_NEAR(c->train.epochs, 90, 0);
        config_destroy(c);
    }
}

TEST(set_takes_every_form)
{
    static const char *const sets[] = { "optimizer.betas=[0.8, 0.95]",
                                        "data.mean=0.1,0.2,0.3",
                                        "data.train=/x=y/z, [1]",
                                        "log.every=2",
                                        "log.every=3",
                                        "run.dir=here" };
    Config *c = NULL;
    REQUIRE_OK(config_load(&c, NULL, sets, 6));
    CHECK_NEAR(c->optimizer.betas.values[1], 0.95, 0);
    CHECK_INT(c->data.mean.count, 3);
    CHECK_STR(c->data.train, "/x=y/z, [1]");
    CHECK_INT(c->log.every, 3); /* the last one holds */
    CHECK_STR(c->run.dir, "here");
    config_destroy(c);
}

TEST(set_overrides_the_file)
{
    Config *c = NULL;
    REQUIRE_OK(load_text(&c, "optimizer: {lr: 0.5}\n", "optimizer.lr=0.25"));
    CHECK_NEAR(c->optimizer.lr, 0.25, 0);
    config_destroy(c);
}

/* ---- refusing ---- */

TEST(unknown_keys_name_line_and_nearest)
{
    check_refused("train:\n  epochs: 3\n  epoks: 4\n",
                  "t.yaml:3: unknown key train.epoks (did you mean train.epochs?)");
    check_refused("lr: 3\n", "t.yaml:1: unknown key lr; use optimizer.lr=RATE (multiplied by ");
    check_refused("\noptimiser:\n  lr: 3\n",
                  "t.yaml:2: unknown key optimiser (did you mean optimizer");
    check_refused("zzzzzzzzzzzz: 3\n",
                  "t.yaml:1: unknown key zzzzzzzzzzzz (convoy inspect config lists all)");
    check_refused("train: 3\n", "t.yaml:1: train is a section");
    check_refused("train: {epochs: {a: 3}}\n", "train.epochs takes a value, not a map");
    check_set_refused("train.epoch=3",
                      "command line: unknown key train.epoch (did you mean train.epochs?)");
    check_set_refused("watchdog.disconect_s=3", "(did you mean watchdog.disconnect_s?)");
    check_set_refused("optimiser.name=sgd", "(did you mean optimizer.name?)");
    check_set_refused("train.epochs", "command line: train.epochs: expected key=value");
    check_set_refused("train=3", "command line: train is a section");
}

TEST(bad_values_name_key_value_and_range)
{
    check_refused("train:\n  label_smoothing: 1.5\n",
                  "t.yaml:2: train.label_smoothing is \"1.5\"; it must be a number from 0 to below "
                  "1");
    /* an open end is not in the range */
    check_refused("train: {label_smoothing: 1}\n", "from 0 to below 1");
    check_refused("train: {epochs: 0}\n", "a number above 0 to 1000000");
    check_refused("train: {epochs: nan}\n", "train.epochs is \"nan\"");
    check_refused("train: {seed: 1.5}\n",
                  "train.seed is \"1.5\"; it must be a whole number from 0");
    check_refused("train: {seed: 99999999999999999999}\n", "train.seed");
    check_refused("train: {epochs: }\n", "train.epochs is empty");
    check_refused("optimizer: {name: sdg}\n",
                  "must be one of sgd, adam, adamw, lars, lars_mlperf, lamb, rmsprop_tf, lion, "
                  "muon (did you mean sgd?)");
    check_refused("optimizer: {nesterov: maybe}\n", "it must be true or false");
    check_refused("data: {std: [0.5, 0, 1]}\n",
                  "data.std is \"0\"; it must be a list of numbers from 1e-06 to 1000");
    check_refused("data: {mean: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}\n",
                  "the list has more than 16 values");
    check_refused("train: {epochs: [3]}\n", "train.epochs is a list; it takes one value");
    check_set_refused("train.epochs=-1", "command line: train.epochs is \"-1\"");
    check_set_refused("data.mean=1,,2", "data.mean is empty");
    check_set_refused("data.train=a\nb",
                      "data.train must be UTF-8 text without control characters");
    check_set_refused("data.train=\xC3", "data.train must be UTF-8");
    check_set_refused("data.train=\xED\xA0\x80", "data.train must be UTF-8");
}

TEST(bad_yaml_names_the_line)
{
    check_refused("train:\n  epochs: [3\n", "t.yaml:3: bad YAML");
    check_refused("log: {every: 1}}\n", "t.yaml:1: bad YAML");
    check_refused("train:\n\tepochs: 3\n", "t.yaml:2: bad YAML");
    check_refused("- 1\n", "t.yaml:1: a config file must be a map");
    check_refused("hello\n", "t.yaml:1: a config file must be a map");
    check_refused("log: {every: 1}\n---\nlog: {every: 2}\n", "t.yaml:2: a second YAML document");
    check_refused("log: {every: &x 1}\ntrain: {seed: *x}\n",
                  "t.yaml:2: train.seed: aliases are not supported");
    check_refused("? [a]\n: 1\n", "a key must be plain text");
    check_refused("data: {mean: [[1]]}\n", "a list may only contain plain values");
    check_refused("data: {train: \"a\\0b\"}\n", "zero byte");
    check_refused("data: {train: \xFF}\n", "bad YAML");
}

TEST(duplicates_name_both_lines)
{
    check_refused("log:\n  every: 1\n  every: 2\n",
                  "t.yaml:3: log.every is set twice (first in line 2)");
    check_refused("log:\n  every: 1\nlog.every: 2\n",
                  "t.yaml:3: log.every is set twice (first in line 2)");
    check_refused("train: {epochs: 1}\nlog: {every: 1}\ntrain: {seed: 1}\n",
                  "t.yaml:3: section train appears twice (first in line 1)");
}

/* A stored config comes from a file of others. The time that libyaml takes for some of what is
 * refused here grows with its square: for the first it would be many minutes. */
TEST(stored_configs_are_bounded)
{
    static const struct {
        const char *head, *part, *refusal;
        int count;
    } rows[] = {
        { "zzz: ", "{a: ", "stored config:1: unknown key zzz", 60000 },
        { "data: ", "{a: ", "stored config:1: unknown key data.a", 60000 },
        { "data: {mean: ", "[", "stored config:1: data.mean: a list may only contain plain values",
          200000 },
        { "zzz: {", "? ", "stored config:1: ", 100000 },
        { "a: 1\n", "#\n", "stored config: has 600005 bytes; a config file may have at most 262144",
          300000 },
        { "", "%TAG !a! b\n", "stored config:2: bad YAML", 20000 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        StrBuf text = { 0 };
        Config *c = NULL;
        str_add(&text, rows[i].head);
        for (int n = 0; n < rows[i].count; n++) str_add(&text, rows[i].part);
        REQUIRE(!text.failed);
        double start_s = clock_s();
        CHECK_STATUS(config_parse(&c, text.text), ERR_USAGE);
        CHECK(clock_s() - start_s < 5);
        CHECK_CONTAINS(status_message(), rows[i].refusal);
        CHECK(c == NULL);
        str_free(&text);
    }
}

TEST(keys_are_checked_together)
{
    check_refused("model: {name: resnet51}\n",
                  "t.yaml:1: model.name: unknown network \"resnet51\" (did you mean "
                  "resnet5");
    check_refused("model:\n  in_channels: 1\n",
                  "data.mean has 3 values, but model.in_channels is 1");
    check_refused("data:\n  std: [1, 1]\n",
                  "t.yaml:2: data.std has 2 values, but model.in_channels is 3");
    check_refused("optimizer: {betas: [0.9]}\n", "optimizer.betas has 1 values; it takes 2");
    check_refused("optimizer: {nesterov: true, momentum: 0}\n",
                  "optimizer.nesterov requires optimizer.momentum");
    check_refused("train: {batch_mode: global}\n", "train.global_batch must be above 0");
    check_refused("schedule: {milestones: [3, 3]}\n", "schedule.milestones must be ascending");
    check_refused("data: {image_size: 300, eval_resize: 256}\n",
                  "data.eval_resize is 256, less than data.image_size (300)");
    check_set_refused("data.std=[1,1]", "command line: data.std has 2 values");
    check_set_refused("data.progressive_sizes=128,160.5",
                      "command line: data.progressive_sizes must be whole numbers");
    check_set_refused("data.progressive_until=1.5",
                      "command line: data.progressive_until must be whole numbers");
    check_refused("data:\n"
                  "  progressive_until: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]\n"
                  "  progressive_sizes: [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, "
                  "23]\n",
                  "t.yaml:3: data.progressive_sizes has 16 values; at most 7 are allowed");
    check_set_refused("data.progressive_sizes=128,160",
                      "data.progressive_until has 0 values, but data.progressive_sizes has 2");
}

TEST(augmentation_keys_are_checked)
{
    check_set_refused("data.color_jitter=0.4,0.4", "it takes 4");
    check_set_refused("data.color_jitter=0.4,0.4,0.4,0.6", "at most 0.5");
    check_set_refused("data.randaugment_magnitude=31", "it must be below data.magnitude_bins (31)");
    check_set_refused("data.auto_augment_fill=1,2", "one value, or one per channel");
    check_set_refused("data.auto_augment=randaug", "randaugment");
}

/* What would change nothing is refused: who gives it means another run. */
TEST(idle_keys_are_refused)
{
    check_set_refused("train.bce_threshold=0.2", "train.bce_threshold requires train.loss: bce");
    check_set_refused("train.bce_sum=true", "train.bce_sum requires train.loss: bce");
    check_set_refused("train.distill_weight=1", "train.distill_weight requires train.teacher");
    check_set_refused("train.distill_temperature=2", "distill_temperature requires train.teacher");
    check_set_refused("train.teacher_model=resnet50", "teacher_model requires train.teacher");
    check_set_refused("ema.rule=torchvision", "ema.rule requires ema.decay or ema.half_life");
    check_set_refused("ema.warmup=true", "ema.warmup requires ema.decay or ema.half_life");
    check_set_refused("ema.every=32", "ema.every requires ema.decay or ema.half_life");
    check_set_refused("optimizer.lookahead_steps=5",
                      "lookahead_steps requires optimizer.lookahead");
    check_set_refused("optimizer.lookahead_alpha=1",
                      "lookahead_alpha requires optimizer.lookahead");
    check_set_refused("optimizer.sam_interval=5", "sam_interval requires optimizer.sam_rho");
    check_set_refused("data.mixup_prob=0.5", "data.mixup_prob requires data.mixup or data.cutmix");
    check_set_refused("data.mixup_off_epoch=3", "data.mixup_off_epoch requires data.mixup or");
    check_set_refused("data.mixup_switch_prob=0.3",
                      "mixup_switch_prob requires data.mixup above 0");
    check_set_refused("data.erase_mode=pixel", "data.erase_mode requires data.random_erase");
    check_set_refused("data.mixup_prob=0", "data.mixup_prob");
    check_set_refused("train.bce_threshold=1", "train.bce_threshold");
    check_set_refused("train.loss=mse", "cross_entropy");
}

TEST(files_that_cannot_be_read)
{
    Config *c = NULL;
    char path[512];
    in_scratch(path, "none.yaml");
    CHECK_STATUS(config_load(&c, path, NULL, 0), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "none.yaml: no such config file");
    CHECK_STATUS(config_load(&c, test_scratch(), NULL, 0), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "not a run folder");
    CHECK(c == NULL);
}

/* Every prefix of a config is read or refused, never more; under a sanitizer this walks the error
 * paths. */
TEST(truncated_files_do_no_harm)
{
    static const char text[] =
        "model: {name: \"resnet\\x32\\x30\"}\ndata:\n  mean: [0.1, 0.2, 0.3]\n  train: 'x'\nlog: "
        "{every: 2}\n";
    char cut[sizeof text];
    int loaded = 0;
    for (size_t n = 0; n < sizeof text; n++) {
        Config *c = NULL;
        memcpy(cut, text, n);
        cut[n] = '\0';
        if (load_text(&c, cut, NULL) == OK) loaded++;
        config_destroy(c);
    }
    CHECK(loaded > 2 && loaded < (int)sizeof text);
}

/* Loading with the k-th allocation failing ends in ERR_MEMORY and leaks nothing (the sanitizer's
 * part), until it succeeds. */
TEST(out_of_memory_is_an_error)
{
    static const char *const sets[] = { "data.mean=[1,2,3]", "run.dir=x" };
    for (int k = 1; k < 10000; k++) {
        Config *c = NULL;
        mem_fail_at(k);
        Status status = config_load(&c, "configs/demo.yaml", sets, 2);
        mem_fail_at(0);
        config_destroy(c);
        if (status == OK) {
            CHECK(k > 10);
            return;
        }
        CHECK_STATUS(status, ERR_MEMORY);
    }
    CHECK(!"loading never succeeded");
}

/* ---- writing ---- */

TEST(dump_loads_back_equal)
{
    static const char *const sets[] = { "data.train=\xC3\xA9 \"q\" \\ # :",
                                        "optimizer.lr=0.1234567890123456789",
                                        "optimizer.eps=1e-30",
                                        "schedule.milestones=[]",
                                        "train.seed=9007199254740991",
                                        "optimizer.betas=0.5,0.75",
                                        "model.bn=frozen",
                                        "run.dir=r" };
    Config *a = NULL, *b = NULL;
    StrBuf first = { 0 }, second = { 0 }, third = { 0 };
    REQUIRE_OK(config_load(&a, NULL, sets, 8));
    REQUIRE_OK(config_dump_yaml(a, &first));
    REQUIRE_OK(load_text(&b, first.text, NULL));
    REQUIRE_OK(config_dump_yaml(b, &second));
    CHECK_STR(second.text, first.text);
    CHECK_STR(b->data.train, a->data.train);
    CHECK(b->optimizer.lr == a->optimizer.lr && b->optimizer.eps == a->optimizer.eps);
    CHECK_OK(config_difference(a, b, &third));
    CHECK_INT(third.length, 0);
    for (int i = 0; i < config_key_count; i++) { /* every key is in the dump */
        char line[64];
        snprintf(line, sizeof line, "  %s: ", strchr(config_keys[i].key, '.') + 1);
        CHECK_CONTAINS(first.text, line);
    }
    str_free(&first);
    str_free(&second);
    config_destroy(a);
    config_destroy(b);
}

TEST(differences_are_named)
{
    Config *now = NULL, *then = NULL;
    StrBuf text = { 0 };
    const char *const sets[] = { "optimizer.lr=0.2", "log.every=9", "train.precision_auto=fp32",
                                 "cost.pue=2" };
    REQUIRE_OK(config_load(&now, NULL, NULL, 0));
    REQUIRE_OK(config_load(&then, NULL, sets, 4));
    CHECK_OK(config_math_difference(then, now, &text));
    CHECK_STR(text.text,
              "train.precision_auto was fp32 and is open; optimizer.lr was 0.2 and is 0.1");
    str_clear(&text);
    CHECK_OK(config_difference(then, now, &text));
    CHECK_CONTAINS(text.text, "; log.every was 9 and is ");
    CHECK(!strstr(text.text, "cost.pue"));
    str_clear(&text);
    CHECK_OK(config_math_difference(now, now, &text));
    CHECK_INT(text.length, 0);
    str_free(&text);
    config_destroy(now);
    config_destroy(then);
}

/* Each of these gives another model, so a run that goes on says that it was changed. */
TEST(keys_that_change_results_are_named_on_resume)
{
    static const char *const sets[] = {
        "optimizer.groups=fc.*: lr=2", "optimizer.head_lr=2",    "optimizer.layer_decay=0.5",
        "optimizer.decay_skip=none",   "model.freeze=layer1",    "schedule.warmup_steps=7",
        "schedule.warmup_lr=0",        "schedule.decay_steps=9", "schedule.decay_from=start",
        "schedule.decay_epochs=2",     "data.min_crop_area=0.2", "train.seed=2",
    };
    Config *usual = NULL;
    REQUIRE_OK(config_load(&usual, NULL, NULL, 0));
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        Config *c = NULL;
        StrBuf text = { 0 };
        char key[64];
        snprintf(key, sizeof key, "%.*s was ", (int)strcspn(sets[i], "="), sets[i]);
        REQUIRE_OK(config_load(&c, NULL, &sets[i], 1));
        CHECK_OK(config_math_difference(usual, c, &text));
        CHECK_CONTAINS(text.text ? text.text : "", key);
        str_free(&text);
        config_destroy(c);
    }
    config_destroy(usual);
}

TEST(help_prints_every_key)
{
    StrBuf text = { 0 };
    REQUIRE_OK(config_print_help(&text));
    CHECK_CONTAINS(text.text, "\n    Passes over the training set; may be a fraction");
    for (int i = 0; i < config_key_count; i++) {
        char line[128];
        snprintf(line, sizeof line, "\n%s = ", config_keys[i].key);
        CHECK_CONTAINS(text.text, line);
    }
    size_t longest = 0;
    for (const char *p = text.text, *end; (end = strchr(p, '\n')); p = end + 1)
        if ((size_t)(end - p) > longest) longest = (size_t)(end - p);
    CHECK(longest <= 120);
    str_free(&text);
}
