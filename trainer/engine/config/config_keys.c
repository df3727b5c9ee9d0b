/* config_keys.c - every configuration key: one row each, in the order in which they are printed.
 *
 * From a row come the YAML and --set parsers, range checks, convoy inspect config, docs/config.md
 * and the dump in checkpoints. To add a key: a field in Config (config.h) and a row here, then make
 * docs. Defaults are those of ResNet-50 on ImageNet.
 *
 * MATH or RUNTIME. A key is MATH if changing it in the middle of a run would give another model
 * than a run that had it from the start. The batch keys are RUNTIME because a checkpoint stores the
 * global batch itself, and how ranks share it may change on resume. Paths are RUNTIME because data
 * moves; a checkpoint stores the number of images. */
#include "kernels/backend_cuda.h"
#include "kernels/ops/input.h"
#include "kernels/ops/softmax_xent.h"
#include "kernels/ops/update.h"
#include "models/models.h"
#include "trainer/engine/config/config_internal.h"
#include <math.h>

#define NO_NAMES                       NULL, NULL, 0
#define HEAD(section, field, type)     #section "." #field, (type), offsetof(Config, section.field)
#define BOOL(section, field, fallback) HEAD(section, field, KEY_BOOL), fallback, 0, 1, NO_NAMES
#define INT(section, field, fallback, min, max)                                                    \
    HEAD(section, field, KEY_INT), fallback, min, max, NO_NAMES
#define DOUBLE(section, field, fallback, min, max)                                                 \
    HEAD(section, field, KEY_DOUBLE), fallback, min, max, NO_NAMES
#define NAMES(section, field, fallback, other, names, count)                                       \
    HEAD(section, field, KEY_ENUM), fallback, 0, 0, other, names, count
#define COUNT(names) (int)(sizeof names / sizeof *names) - 1
#define ENUM(section, field, fallback, names)                                                      \
    NAMES(section, field, fallback, NULL, names, COUNT(names))
#define STRING(section, field, fallback) HEAD(section, field, KEY_STRING), fallback, 0, 0, NO_NAMES
#define LIST(section, field, fallback, min, max)                                                   \
    HEAD(section, field, KEY_LIST), fallback, min, max, NO_NAMES

/* clang-format off */
const ConfigKey config_keys[] = {
    {STRING(model, name, "resnet50"), KEY_MATH, "Network; convoy inspect model NAME describes one"},
    {STRING(model, init, ""), KEY_RUNTIME,
     "Weights that a new run starts from: a .safetensors or .pth file (a checkpoint, or saved by "
     "torchvision, timm or Lightning) or a run folder (its best checkpoint). Rows of the last "
     "layer are matched by class name; rows without a match, and the whole layer if the number of "
     "classes differs or the file lacks it, start from scratch"},
    {ENUM(model, init_weights, "auto", weights_choice_names), KEY_RUNTIME,
     "Which weights of model.init, if it has both: trained (raw) or averaged (ema); auto: of a "
     "checkpoint of Convoy the trained, of other files the averaged ones"},
    {STRING(model, freeze, ""), KEY_MATH,
     "Parameters that training does not change: a stage or layer and all before it (layer2), or "
     "name patterns (*.bias), separated by commas"},
    {INT(model, classes, "0", 0, 1e6), KEY_MATH, "Number of classes; 0: from the training set"},
    {INT(model, in_channels, "3", 1, 16), KEY_MATH,
     "Channels of an image: 3 for colour, 1 for greyscale"},
    {ENUM(model, stem, "imagenet", stem_names), KEY_MATH,
     "First layers: as published (imagenet), or for small images a 3x3 convolution of stride 1 "
     "(ResNet-18 to -152, without the max pooling, RegNets, MobileNets, EfficientNets)"},
    {ENUM(model, blurpool, "none", blurpool_names), KEY_MATH,
     "ResNets: 3x3 blurs where images shrink: before convolutions with a stride (ffcv), there and "
     "at the max pool (composer), or after the 3x3 and the max pool (timm's resnetblur)"},
    {ENUM(model, bn, "train", bn_choice_names), KEY_MATH,
     "Batch norm: by the statistics of each rank's batch (train), of several ranks (sync), or by "
     "frozen running statistics (frozen; gamma and beta still train)"},
    {INT(model, bn_group, "0", 0, 1e6), KEY_MATH,
     "Number of consecutive ranks that share statistics with model.bn: sync; 0: all"},
    {BOOL(model, zero_init_last_gamma, "false"), KEY_MATH,
     "Start the last batch norm of each residual block at zero, so that each block starts as the "
     "identity"},
    {DOUBLE(model, stochastic_depth, "-1", -1, 1), KEY_MATH | KEY_OPEN_MAX,
     "Probability of dropping the last residual block in training (lower for earlier blocks); -1: "
     "the network's own, 0.2 for EfficientNets, 0.1 to 0.5 for ConvNeXts, else 0"},
    {DOUBLE(model, dropout, "-1", -1, 1), KEY_MATH | KEY_OPEN_MAX,
     "Dropout probability before the last layer, or in every layer of a network of text; -1: the "
     "network's own, 0 for ResNets"},
    {DOUBLE(model, attention_dropout, "-1", -1, 1), KEY_MATH | KEY_OPEN_MAX,
     "Dropout probability of attention weights in transformers; -1: the network's own, 0.1 for "
     "RoBERTa and BERT, else 0"},
    {ENUM(model, head, "mlm", head_choice_names), KEY_MATH,
     "Networks of text: fill in masked words (mlm), or give each sequence a class (classify)"},
    {INT(model, layers, "0", 0, 1000), KEY_MATH,
     "Networks of text: number of layers; 0: as published"},
    {INT(model, hidden, "0", 0, 65536), KEY_MATH,
     "Networks of text: width of a layer (the inner one has four times as much); 0: as published"},
    {INT(model, heads, "0", 0, 1024), KEY_MATH,
     "Networks of text: attention heads; they divide model.hidden. 0: as published"},

    {STRING(data, dir, ""), KEY_RUNTIME,
     "Sets data.train and data.val: to its folders train and val, or both to the folder itself if "
     "data.val_split is set or if the names of its tar, TFRecord, IDX or CIFAR files say which set "
     "they belong to"},
    {STRING(data, train, ""), KEY_RUNTIME,
     "Training set: a folder, or a file for formats that are one file"},
    {STRING(data, val, ""), KEY_RUNTIME,
     "Validation set: a folder or a file; empty: no evaluation"},
    {DOUBLE(data, val_split, "0", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "Share of each class of data.train to hold out for validation instead of data.val; image "
     "names and val_split_seed decide which images"},
    {INT(data, val_split_seed, "0", 0, 9e15), KEY_MATH, "Another number holds out other images"},
    {STRING(data, class_map, ""), KEY_MATH,
     "Text file with the classes to train on, one per line in label order: the name in the "
     "dataset, optionally a tab and a new name. Lines with the same new name become one class; "
     "images of other classes are left out; generated images keep their classes"},
    {ENUM(data, format, "auto", data_format_names), KEY_RUNTIME,
     "Format of the dataset: one folder per class (imagefolder), written by convoy pack (shards), "
     "tar files (webdataset), tfrecord, a text file of paths and classes (list), MNIST files "
     "(idx), CIFAR files (cifar), text that fairseq-preprocess wrote (fairseq), or generated "
     "images (synthetic); auto detects it"},
    {ENUM(data, labels, "single", label_kind_names), KEY_MATH,
     "Labels per image: one (single), or any number including none (multi), from lists with "
     "several labels in a row; multi requires train.loss: bce, and evaluation then reports mean "
     "average precision (mAP) instead of top-1"},
    {BOOL(data, allow_empty_classes, "false"), KEY_RUNTIME,
     "Accept class folders without images, in a tar too (torchvision's allow_empty), and a "
     "data.val without some classes of data.train; false: both are errors"},
    {ENUM(data, order, "shuffle", sample_order_names), KEY_MATH,
     "Order of training images: each once per epoch (shuffle), or drawn so that all classes are "
     "equally frequent, with images of small classes several times per epoch (balanced)"},
    {STRING(data, index, "auto"), KEY_RUNTIME,
     "Where to keep the list of images between runs: a folder, or a file ending in .index; auto: "
     "the folder index next to the run folder; off: list the images at every start"},
    {INT(data, image_size, "224", 8, 4096), KEY_MATH,
     "Height and width of the network's input images"},
    {HEAD(data, eval_resize, KEY_INT), "auto", 0, 8192, "auto", NULL, 0, KEY_MATH,
     "Evaluation scales the shorter side to this before the centre crop; 0: image_size; auto: in "
     "the network's own ratio (convoy inspect model), rounded down; a resumed run keeps its value"},
    {INT(data, train_size, "0", 0, 4096), KEY_MATH,
     "Height and width of training images if they differ from those for evaluation, for example "
     "176 with image_size 224; 0: image_size"},
    {LIST(data, progressive_sizes, "", 8, 4096), KEY_MATH,
     "Progressive resizing: training image sizes to use one after the other (at most 7) before "
     "train_size or image_size; evaluation always uses image_size"},
    {LIST(data, progressive_until, "", 1, 1e6), KEY_MATH,
     "Progressive resizing: the last epoch of each size, counted from 1"},
    {LIST(data, mean, "0.485, 0.456, 0.406", -1e3, 1e3), KEY_MATH,
     "Subtracted from pixels in 0..1; one value, or one per channel"},
    {LIST(data, std, "0.229, 0.224, 0.225", 1e-6, 1e3), KEY_MATH,
     "Pixels are divided by this after the mean is subtracted; one value, or one per channel"},
    {ENUM(data, augment, "imagenet", augment_names), KEY_MATH,
     "Training images: random resized crop and flip (imagenet), random crop of the image padded by "
     "an eighth of its size and flip (cifar), shift by up to 2 reflected pixels and flip in every "
     "other epoch (airbench), or as in evaluation (none)"},
    {DOUBLE(data, min_crop_area, "0.08", 0, 1), KEY_MATH | KEY_OPEN_MIN,
     "augment imagenet: smallest crop, as a share of the image area (torchvision's scale, timm's "
     "--scale)"},
    {NAMES(data, interpolation, "bilinear", NULL, interpolation_names, INTERPOLATION_RANDOM),
     KEY_MATH,
     "Resizing filter for training and evaluation; both are as in Pillow, with antialiasing"},
    {NAMES(data, train_interpolation, "same", "same", interpolation_names, INTERPOLATION_COUNT),
     KEY_MATH,
     "Resizing filter for training images; same: as interpolation; random: drawn for each image, "
     "as timm does"},
    {ENUM(data, decoder, "fast", huffman_decoder_names), KEY_RUNTIME,
     "JPEG: decode Huffman codes with Convoy's faster decoder where possible (fast), or always "
     "with libjpeg (stock); same pixels"},
    {ENUM(data, seek_index, "auto", seek_use_names), KEY_RUNTIME,
     "JPEG: auto skips the rows above a crop by an index of row positions, from shards or made on "
     "the first read; same pixels"},
    {INT(data, seek_index_mb, "1024", 0, 1e6), KEY_RUNTIME,
     "Maximum memory in MiB of this index per rank; 1000 ImageNet images take 0.6 MiB, or 3.4 MiB "
     "for slightly more speed if there is room"},
    {LIST(data, color_jitter, "0, 0, 0, 0", 0, 100), KEY_MATH,
     "Training: random changes of brightness, contrast, saturation and hue, in random order; "
     "values as in torchvision, hue at most 0.5; 0: no change"},
    {ENUM(data, auto_augment, "none", auto_policy_names), KEY_MATH,
     "Training: automatic augmentation after crop, flip and color_jitter, as torchvision's "
     "transform of that name; randaugment_timm is timm's rand-m9-mstd0.5-inc1"},
    {INT(data, randaugment_ops, "2", 1, 16), KEY_MATH,
     "randaugment, randaugment_timm: operations per image"},
    {INT(data, randaugment_magnitude, "9", 0, 999), KEY_MATH,
     "randaugment: strength, below magnitude_bins; randaugment_timm: at most 10"},
    {DOUBLE(data, randaugment_std, "0.5", 0, 100), KEY_MATH,
     "randaugment_timm: standard deviation of the strength, which is normal and clipped to 0..10"},
    {INT(data, magnitude_bins, "31", 2, 1000), KEY_MATH,
     "randaugment, trivialaugment: number of strength levels"},
    {ENUM(data, autoaugment_policy, "imagenet", autoaugment_table_names), KEY_MATH,
     "autoaugment: dataset whose policy is used"},
    {INT(data, augmix_severity, "3", 1, 10), KEY_MATH, "augmix: maximum strength, out of 10"},
    {ENUM(data, auto_augment_interpolation, "bilinear", sampling_names), KEY_MATH,
     "Interpolation of shear, translate and rotate in automatic augmentation; random draws "
     "bilinear or bicubic for each operation, as timm does"},
    {LIST(data, auto_augment_fill, "0", 0, 255), KEY_MATH,
     "Pixel value for areas that shear, translate and rotate leave empty; one value, or one per "
     "channel"},
    {DOUBLE(data, random_erase, "0", 0, 1), KEY_MATH,
     "Training: probability of erasing a box of 0.02 to 0.33 of the image's area"},
    {ENUM(data, erase_mode, "const", input_erase_names), KEY_MATH,
     "random_erase: fill the box with the mean colour (const), one normal value per channel (rand) "
     "or one per pixel and channel (pixel), as in timm"},
    {DOUBLE(data, mixup, "0", 0, 100), KEY_MATH,
     "Training: alpha of mixup, which blends each image and its target with those of another image "
     "in the batch; 0: off"},
    {DOUBLE(data, cutmix, "0", 0, 100), KEY_MATH,
     "Training: alpha of cutmix, which pastes a box from another image; if mixup is on too, one of "
     "them is chosen per batch (mixup_switch_prob); 0: off"},
    {DOUBLE(data, mixup_prob, "1", 0, 1), KEY_MATH | KEY_OPEN_MIN,
     "Training: share of the batches that get mixup or cutmix"},
    {DOUBLE(data, mixup_switch_prob, "0.5", 0, 1),
     KEY_MATH | KEY_OPEN_MIN | KEY_OPEN_MAX,
     "Training: probability of cutmix if mixup is on too"},
    {INT(data, mixup_off_epoch, "0", 0, 1e6), KEY_MATH,
     "Training: stop mixup and cutmix after this many epochs; 0: never"},
    {ENUM(data, tta, "none", tta_choice_names), KEY_RUNTIME,
     "Evaluation averages the logits of several views of an image: with its mirror image (flip, "
     "twice the cost), or both at half weight and both shifted by one pixel to the upper left and "
     "to the lower right, reflected at the edges (airbench, six times the cost)"},
    {INT(data, repeated_augmentation, "1", 1, 256), KEY_MATH,
     "Training: differently augmented views of each sample per global batch; an epoch then has "
     "fewer samples (repeated augmentation)"},
    {INT(data, threads, "0", 0, 1024), KEY_RUNTIME,
     "Decode threads per rank; 0: by the CPUs that the rank may use"},
    {INT(data, readers, "0", 0, 256), KEY_RUNTIME,
     "Threads per rank that read files ahead of the decode threads; 0: start with 2 and add more "
     "while decode threads wait"},
    {DOUBLE(data, read_ahead_mb, "64", 0, 65536), KEY_RUNTIME | KEY_OPEN_MIN,
     "MiB of files that each rank reads ahead of the decode threads"},
    {ENUM(data, cache, "page", data_cache_names), KEY_RUNTIME,
     "Cache of files read: the kernel's page cache (page), memory shared by a node's ranks, "
     "without eviction (ram), the same in a file in cache_dir that outlives the run (disk), or "
     "none"},
    {INT(data, cache_mb, "0", 0, 1e9), KEY_RUNTIME,
     "With cache: ram or disk: MiB of files to keep per node; 0: up to half of the free memory or "
     "disk space"},
    {STRING(data, cache_dir, ""), KEY_RUNTIME,
     "With cache: disk: a folder on a local disk of each node"},
    {DOUBLE(data, max_bad_fraction, "0.01", 0, 1), KEY_RUNTIME,
     "Training fails if more than this share of the images (and at least 10) cannot be decoded"},
    {INT(data, synthetic_images, "1024", 1, 1e9), KEY_MATH,
     "Images per set with format: synthetic"},
    {INT(data, tokens, "512", 8, 32768), KEY_MATH,
     "Text: tokens of the longest sequence, with <s>; also the positions that the network has"},
    {ENUM(data, break_mode, "none", token_break_names), KEY_MATH,
     "Text: sequences are cut every data.tokens (none), or hold as many whole sentences as fit "
     "(complete), not beyond an empty one (complete_doc), or one sentence each (eos); as fairseq's "
     "--sample-break-mode"},
    {DOUBLE(data, mask, "0.15", 0, 1), KEY_MATH | KEY_OPEN_MIN | KEY_OPEN_MAX,
     "Text, mlm: share of the tokens to find"},
    {DOUBLE(data, mask_keep, "0.1", 0, 1), KEY_MATH,
     "Text, mlm: of these, the share that is shown as it is"},
    {DOUBLE(data, mask_random, "0.1", 0, 1), KEY_MATH,
     "Text, mlm: of these, the share that is shown as a random word; the others as <mask>"},

    {DOUBLE(train, epochs, "90", 0, 1e6), KEY_MATH | KEY_OPEN_MIN,
     "Passes over the training set; may be a fraction"},
    {INT(train, max_steps, "0", 0, 1e15), KEY_MATH,
     "Stop after this many steps in total; 0: no limit"},
    {ENUM(train, batch_mode, "per_rank", batch_mode_names), KEY_RUNTIME,
     "Whether batch_per_rank or global_batch sets the batch size"},
    {INT(train, batch_per_rank, "32", 1, 1e6), KEY_RUNTIME,
     "Images per rank and pass through the network; with batch_mode: global, the maximum"},
    {INT(train, global_batch, "0", 0, 1e9), KEY_RUNTIME,
     "Images per step over all ranks and passes, with batch_mode: global"},
    {LIST(train, accumulate, "1", 1, 1e6), KEY_RUNTIME,
     "Passes through the network per step, with gradients summed; with batch_mode: global, the "
     "minimum. A list has one value per epoch; the last one holds for all later epochs"},
    {NAMES(train, precision, "auto", "auto", precision_names, PRECISION_COUNT), KEY_MATH,
     "Number format of the computation; parameters stay fp32. auto: bf16 on GPUs that have it "
     "(compute capability 8.0), fp16 on older ones; on the CPU bf16 if all ranks have AMX, or "
     "AMD's AVX-512 with bf16, and it covers half of the network's work (a quarter on AMD), else "
     "fp32. tf32 and fp16 are for GPUs only"},
    {NAMES(train, precision_auto, "open", "open", precision_names, PRECISION_COUNT),
     KEY_MATH,
     "The choice of precision: auto: open until a run starts, then the run keeps its choice on any "
     "machine; separate evaluations choose again"},
    {ENUM(train, recompute, "none", recompute_names), KEY_RUNTIME,
     "What a training step does not keep for its backward pass but makes again, with the same "
     "results: outputs of norms and activations (norms), which costs little time, or all but the "
     "inputs of blocks (blocks), which takes the least memory and repeats most of the forward "
     "pass"},
    {DOUBLE(train, loss_scale, "65536", 1, 16777216), KEY_MATH, "fp16: initial loss scale"},
    {INT(train, loss_scale_interval, "2000", 1, 1e9), KEY_MATH,
     "fp16: steps with finite gradients after which the loss scale doubles; a step with other "
     "gradients is skipped and halves it"},
    {ENUM(train, on_nan, "stop", on_nan_names), KEY_RUNTIME,
     "If the loss, a parameter or a running statistic is NaN or infinite: stop ends the run with "
     "exit code 71; rollback continues from the newest checkpoint with a lower learning rate"},
    {DOUBLE(train, rollback_lr, "0.5", 0, 1), KEY_RUNTIME | KEY_OPEN_MIN | KEY_OPEN_MAX,
     "rollback: factor on the learning rate each time, until the end of the run"},
    {INT(train, rollback_limit, "3", 1, 1e6), KEY_RUNTIME,
     "rollback: maximum number of rollbacks per run; then it ends with exit code 71"},
    {INT(train, seed, "1", 0, 9007199254740992.0), KEY_MATH,
     "Seed of initial weights, shuffling and augmentation"},
    {DOUBLE(train, label_smoothing, "0", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "Share of the target that is spread over all classes; with data.labels: multi every target t "
     "becomes (1 - share) t + share / 2"},
    {ENUM(train, loss, "cross_entropy", softmax_xent_loss_names), KEY_MATH,
     "Training loss: cross entropy over the classes, or binary cross entropy (bce) per class, as "
     "in timm; evaluation reports cross entropy, with data.labels: multi bce"},
    {DOUBLE(train, bce_threshold, "0", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "bce: targets above this become 1, all others 0; 0: targets are not changed"},
    {BOOL(train, bce_sum, "false"), KEY_MATH,
     "bce: sum over the classes, as Composer does, instead of the mean"},
    {STRING(train, class_weights, ""), KEY_MATH,
     "Weight of each class in the loss: auto is images / (classes x images of the class); or a "
     "file with one number per line and class; empty: all equal"},
    {STRING(train, teacher, ""), KEY_RUNTIME,
     "Distillation: the network to learn from, besides the labels: a checkpoint, a run folder (its "
     "best checkpoint), or other weights in a .safetensors or .pth file. It must have the same "
     "classes and image size; its own data.mean and data.std are applied to its images"},
    {STRING(train, teacher_model, ""), KEY_MATH,
     "Network of a teacher that is not a Convoy checkpoint, as in predict --model: resnet50, or "
     "resnet50:IMAGENET1K_V2 to prepare images as for those published weights. Without a tag, a "
     "file that does not say how images are prepared gets the student's"},
    {DOUBLE(train, distill_temperature, "4", 0, 1000), KEY_MATH | KEY_OPEN_MIN,
     "T: logits of both networks are divided by it (Hinton et al. 2015)"},
    {DOUBLE(train, distill_weight, "0.5", 0, 1), KEY_MATH | KEY_OPEN_MIN,
     "a: the loss is (1 - a) times the loss of the labels plus a T^2 times the Kullback-Leibler "
     "divergence between the teacher's softmax and the student's"},
    {DOUBLE(train, eval_every, "1", 0, 1e6), KEY_RUNTIME,
     "Evaluate every N epochs; 0: only at the end"},

    {INT(train, patience, "0", 0, 1e6), KEY_RUNTIME,
     "Early stopping: end the run after N evaluations in a row that do not improve on the best; 0: "
     "off"},
    {ENUM(optimizer, name, "sgd", update_kind_names), KEY_MATH, "Update rule"},
    {DOUBLE(optimizer, lr, "0.1", 0, 1e6), KEY_MATH, "Learning rate before scaling"},
    {ENUM(optimizer, lr_scaling, "linear", lr_scaling_names), KEY_MATH,
     "Factor on lr: global batch / 256 (linear), its square root (sqrt), or the number of ranks "
     "(world_size)"},
    {DOUBLE(optimizer, momentum, "0.9", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "Momentum of sgd, lars, lars_mlperf, rmsprop_tf and muon"},
    {BOOL(optimizer, nesterov, "false"), KEY_MATH,
     "Nesterov momentum, for sgd, lars, lars_mlperf and muon"},
    {DOUBLE(optimizer, weight_decay, "0.0001", 0, 100), KEY_MATH,
     "L2 penalty of sgd, adam, lars, lars_mlperf and rmsprop_tf; decoupled decay of adamw, "
     "lamb, lion and muon"},
    {ENUM(optimizer, decay_skip, "timm", decay_skip_names), KEY_MATH,
     "Parameters without weight decay (and without adaptation by lars and lamb): biases, norms, "
     "layer scales, positions and class tokens (timm, mlperf), norms (torchvision), parameters "
     "with bn in their name (ffcv), or none"},
    {STRING(optimizer, groups, ""), KEY_MATH,
     "Factors on lr and weight_decay by parameter name patterns; the first pattern that matches "
     "applies: \"fc.*: lr=10; *.bias: lr=64 decay=0\""},
    {DOUBLE(optimizer, head_lr, "1", 0, 1e6), KEY_MATH | KEY_OPEN_MIN,
     "Factor on the learning rate of the last layer"},
    {DOUBLE(optimizer, layer_decay, "1", 0, 1), KEY_MATH | KEY_OPEN_MIN,
     "Factor on the learning rate from each block to the one before it, starting at the last layer "
     "(timm's --layer-decay)"},
    {HEAD(optimizer, betas, KEY_LIST), "auto", 0, 1, "auto", NULL, 0, KEY_MATH | KEY_OPEN_MAX,
     "Decay rates of the two moments of adam, adamw and lamb, and of what muon leaves to adamw; "
     "for lion, of the update and the momentum. auto: as published, 0.9, 0.99 for lion, 0.9, 0.95 "
     "for muon, else 0.9, 0.999"},
    {DOUBLE(optimizer, alpha, "0.9", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "rmsprop_tf: decay rate of the mean square"},
    {HEAD(optimizer, eps, KEY_DOUBLE), "auto", 1e-30, 1, "auto", NULL, 0, KEY_MATH,
     "Added to the square root of the second moment (adam, adamw, lamb), inside the root "
     "(rmsprop_tf), or to the norm in the denominator (lars, lars_mlperf). auto: as published, "
     "1e-8 for adam, adamw and lars, 1e-7 for lars_mlperf and muon, 1e-6 for lamb, 1e-3 for "
     "rmsprop_tf"},
    {DOUBLE(optimizer, trust_coefficient, "0.001", 0, 1e6), KEY_MATH | KEY_OPEN_MIN,
     "lars, lars_mlperf: eta, factor on the trust ratio"},
    {BOOL(optimizer, trust_clip, "false"), KEY_MATH,
     "lars: the trust ratio never raises the learning rate (LARC); lamb: the ratio is at most 1"},
    {BOOL(optimizer, always_adapt, "false"), KEY_MATH,
     "lars, lamb: use trust ratios also for parameters without weight decay"},
    {DOUBLE(optimizer, clip_norm, "0", 0, 1e30), KEY_MATH,
     "Clip the norm of all gradients to this; 0: off"},
    {DOUBLE(optimizer, sam_rho, "0", 0, 1e6), KEY_MATH,
     "Sharpness-aware minimisation: take the gradient at weights moved by this distance along the "
     "gradient of the global batch, summed over ranks; two passes per step; 0: off"},
    {INT(optimizer, sam_interval, "1", 1, 1e15), KEY_MATH,
     "sam_rho: apply it in every Nth step, starting with the first; 1: in every step"},

    {ENUM(optimizer, lookahead, "off", lookahead_form_names), KEY_MATH,
     "Slow weights that the trained ones return to every few steps: of parameters (timm), or also "
     "of running statistics, with a share that shrinks over the run, which ends with the slow "
     "weights (airbench)"},
    {INT(optimizer, lookahead_steps, "6", 1, 1e9), KEY_MATH, "lookahead: every N updates"},
    {DOUBLE(optimizer, lookahead_alpha, "0.5", 0, 1), KEY_MATH,
     "lookahead timm: step of the slow weights towards the trained ones, as a share"},

    {DOUBLE(ema, decay, "0", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "Decay of an exponential moving average (EMA) of parameters and running statistics, which is "
     "evaluated as well; 0: none"},
    {DOUBLE(ema, half_life, "0", 0, 1e15), KEY_MATH,
     "timm: the decay as a half-life in steps, instead of ema.decay; 0: use ema.decay"},
    {ENUM(ema, rule, "timm", ema_rule_names), KEY_MATH,
     "EMA as in timm's ModelEmaV3, or as in torchvision's references, which adjust the decay by "
     "global batch, ema.every and train.epochs, and copy the weights while the learning rate warms "
     "up"},
    {INT(ema, every, "1", 1, 1e9), KEY_MATH,
     "Update the average every N steps; torchvision's 32 are counted within each epoch"},
    {BOOL(ema, warmup, "false"), KEY_MATH, "timm: limit the decay to 1 - n^(-2/3) in update n"},
    {BOOL(ema, best, "true"), KEY_RUNTIME,
     "Choose the best checkpoint by the averaged weights, and use them in eval, predict and "
     "export; false: the trained weights"},

    {ENUM(schedule, name, "cosine", schedule_shape_names), KEY_MATH,
     "Shape of the learning rate after warm-up; triangular is a straight line"},
    {DOUBLE(schedule, warmup_epochs, "5", 0, 1e6), KEY_MATH,
     "Epochs of linear warm-up to the learning rate; 0: none"},
    {INT(schedule, warmup_steps, "0", 0, 1e15), KEY_MATH,
     "Warm-up in steps, instead of warmup_epochs; 0: use warmup_epochs"},
    {DOUBLE(schedule, warmup_lr, "-1", -1, 1e6), KEY_MATH,
     "Learning rate of the first warm-up step, not scaled by lr_scaling; with 0 that step changes "
     "nothing. -1: of w steps the first has 1/w of the learning rate, the last all of it"},
    {DOUBLE(schedule, min_lr, "0", 0, 1e6), KEY_MATH,
     "Final learning rate of cosine, poly and triangular; lower limit of step and exponential"},
    {DOUBLE(schedule, power, "1", 0, 100), KEY_MATH | KEY_OPEN_MIN, "Exponent of poly"},
    {INT(schedule, decay_steps, "0", 0, 1e15), KEY_MATH,
     "Steps for cosine, poly and triangular to reach min_lr, independent of the run's length; 0: "
     "the rest of the run"},
    {ENUM(schedule, decay_from, "warmup", decay_from_names), KEY_MATH,
     "cosine and poly count steps from the end of warm-up (warmup), or from the start of the run, "
     "as timm does (start)"},
    {LIST(schedule, milestones, "30, 60, 80", 0, 1e6), KEY_MATH,
     "step: epochs, ascending, at which the learning rate is multiplied by gamma"},
    {DOUBLE(schedule, gamma, "0.1", 0, 1), KEY_MATH | KEY_OPEN_MIN,
     "step, exponential: factor on the learning rate"},
    {DOUBLE(schedule, decay_epochs, "2.4", 0, 1e6), KEY_MATH | KEY_OPEN_MIN,
     "exponential: multiply the learning rate by gamma every N epochs, counting warm-up"},

    {DOUBLE(comm, bucket_mb, "200", 0, 65536), KEY_RUNTIME | KEY_OPEN_MIN,
     "Maximum size in MiB of a gradient bucket, the unit of summing over ranks"},
    {DOUBLE(comm, first_bucket_mb, "0", 0, 65536), KEY_RUNTIME,
     "Maximum size of the first bucket; 0: bucket_mb"},
    {DOUBLE(comm, timeout_s, "600", 0, 1e6), KEY_RUNTIME,
     "Seconds without an answer after which a peer counts as lost; 0: no limit"},
    {INT(comm, max_ctas, "16", 0, 64), KEY_RUNTIME,
     "GPU: maximum number of thread blocks for NCCL while the computation runs; 0: NCCL's choice"},
    {ENUM(comm, grad_dtype, "auto", grad_dtype_names), KEY_MATH,
     "GPU: number format of gradients in sums over ranks. auto: bf16 if the computation is 16-bit "
     "and NCCL sums at most 16 ranks, else fp32"},
    {BOOL(comm, zero_copy, "true"), KEY_RUNTIME,
     "GPU: sum gradients in memory that NCCL has allocated and registered, which saves copies; may "
     "need slightly more memory"},

    {DOUBLE(watchdog, start_s, "3600", 0, 1e7), KEY_RUNTIME,
     "Maximum seconds from the start of a rank (including MPI) to its first step; after that the "
     "run ends with exit code 76; 0: no limit"},
    {DOUBLE(watchdog, step_s, "1200", 0, 1e7), KEY_RUNTIME,
     "The same for a training step; keep it above comm.timeout_s, so that the communication "
     "timeout comes first: its message names the operation that a peer is missing from"},
    {DOUBLE(watchdog, evaluation_s, "1200", 0, 1e7), KEY_RUNTIME,
     "The same for an evaluation batch"},
    {DOUBLE(watchdog, checkpoint_s, "1200", 0, 1e7), KEY_RUNTIME, "The same for a checkpoint"},
    {DOUBLE(watchdog, disconnect_s, "25", 0, 1e7), KEY_RUNTIME,
     "Seconds without an answer from mpirun after which a host without progress counts as cut off: "
     "its ranks and mpirun's daemon there exit with code 76; 0: no limit"},

    {DOUBLE(checkpoint, every_epochs, "1", 0, 1e6), KEY_RUNTIME,
     "Save every N epochs; 0: only at the end"},
    {INT(checkpoint, every_steps, "0", 0, 1e15), KEY_RUNTIME, "Also save every N steps; 0: off"},
    {INT(checkpoint, keep, "3", 1, 1e6), KEY_RUNTIME,
     "Number of newest checkpoints to keep (at least 2 with train.on_nan: rollback); the best one "
     "is always kept"},
    {STRING(checkpoint, resume, "auto"), KEY_RUNTIME,
     "auto: continue the run folder if it has a checkpoint; none: start a new run; anything else: "
     "checkpoint file to continue from"},

    {STRING(checkpoint, on_save, ""), KEY_RUNTIME,
     "Command that rank 0 runs in the background after each checkpoint, for example a copy to an "
     "object store; the environment has CONVOY_CHECKPOINT, CONVOY_STEP and CONVOY_RUN_DIR; empty: "
     "none"},
    {DOUBLE(checkpoint, on_save_timeout_s, "600", 0, 1e6), KEY_RUNTIME | KEY_OPEN_MIN,
     "Time limit of on_save in seconds, per checkpoint and again at the end of the run; then it is "
     "killed"},

    {INT(log, every, "1", 1, 1e9), KEY_RUNTIME, "Write every Nth step to metrics.jsonl"},
    {BOOL(log, grad_norm, "false"), KEY_RUNTIME,
     "Record the norm of all gradients before clipping; always on with optimizer.clip_norm"},
    {ENUM(log, format, "line", log_format_names), KEY_RUNTIME,
     "Printed output: a progress line (line); Step, Epoch, Speed, Loss, FinLoss and LR of steps 0, "
     "1 and every log.every-th, counted from 0 (table); one line per rank and epoch, and a table "
     "at the end (epoch); the records of metrics.jsonl (json)"},
    {STRING(log, file, ""), KEY_RUNTIME,
     "Log file of each rank with its recorded steps: %r is the rank, %w the number of ranks, %h "
     "the host, %% a percent sign; relative paths start at the run folder; empty: none"},
    {STRING(log, trace_steps, ""), KEY_RUNTIME,
     "Steps to trace, for example 100-104: each rank writes the activity of its threads and its "
     "device to trace-RANK.json in the run folder, for Perfetto or chrome://tracing; empty: none"},
    {BOOL(monitor, tensorboard, "false"), KEY_RUNTIME,
     "Write TensorBoard event files to the folder tensorboard in the run folder"},
    {STRING(monitor, prometheus, ""), KEY_RUNTIME,
     "File with metrics for Prometheus (node_exporter's textfile collector), rewritten every "
     "monitor.every_s by the first rank of each host; %h is the host; empty: none"},
    {STRING(monitor, emf, ""), KEY_RUNTIME,
     "File to which the first rank of each host appends CloudWatch metrics (embedded metric "
     "format) every monitor.every_s; %h is the host; - is standard output, only on rank 0's host; "
     "empty: none"},
    {ENUM(monitor, gpu, "auto", monitor_gpu_names), KEY_RUNTIME,
     "Monitor the GPUs of each host through NVML; auto: if the run uses GPUs and the driver has "
     "NVML"},
    {DOUBLE(monitor, every_s, "10", 1, 1e6), KEY_RUNTIME,
     "Seconds between two recorded measurements"},
    {DOUBLE(cost, price_per_host_hour, "0", 0, 1e9), KEY_RUNTIME,
     "Price per host hour, for costs in records and reports; 0: not given. Convoy comes with "
     "no prices"},
    {DOUBLE(cost, price_per_kwh, "0", 0, 1e9), KEY_RUNTIME,
     "Price per kWh, if energy is not included in the price of hosts; 0: not given"},
    {STRING(cost, currency, ""), KEY_RUNTIME, "Currency to print with prices, for example USD"},
    {STRING(cost, price_note, ""), KEY_RUNTIME,
     "Note printed with every cost, for example p5.48xlarge, capacity block, 2024-12"},
    {DOUBLE(cost, pue, "1", 1, 10), KEY_RUNTIME,
     "Power usage effectiveness: power of the building divided by power of the hosts"},
    {DOUBLE(cost, grams_per_kwh, "0", 0, 1e5), KEY_RUNTIME, "Grams of CO2 per kWh; 0: not given"},
    {DOUBLE(cost, host_watts, "0", 0, 1e6), KEY_RUNTIME,
     "Assumed power of a host in watts, without GPUs that are measured, where the energy of its "
     "CPUs is not measured; 0: none"},
    {STRING(cost, powercap, "/sys/class/powercap"), KEY_RUNTIME,
     "Folder of the kernel's CPU energy counters; empty: do not measure"},
    {STRING(run, dir, ""), KEY_RUNTIME, "Run folder; empty: runs/ and the name of the config file"},
    {LIST(scale, ranks, "1, 2, 4, 8", 1, 65536), KEY_RUNTIME,
     "convoy scale: numbers of ranks to measure, ascending"},
    {ENUM(scale, mode, "weak", scale_mode_names), KEY_RUNTIME,
     "convoy scale: train.batch_per_rank images for every rank (weak), or train.global_batch for "
     "all together (strong)"},
    {INT(scale, repeats, "3", 1, 1000), KEY_RUNTIME, "convoy scale: runs per number of ranks"},
    {INT(scale, steps, "0", 0, 1e9), KEY_RUNTIME,
     "convoy scale: measured steps per run; 0: measure whole epochs"},
    {INT(scale, warmup_steps, "10", 0, 1e9), KEY_RUNTIME,
     "convoy scale: steps before the measurement"},
    {INT(scale, epochs, "3", 2, 1e6), KEY_RUNTIME,
     "convoy scale: epochs per run with scale.steps: 0; the first one is not measured"},
    {ENUM(scale, data, "real", scale_data_names), KEY_RUNTIME,
     "convoy scale: train on data.train (real), or on generated images (synthetic)"},
    {STRING(scale, dir, ""), KEY_RUNTIME,
     "convoy scale: folder for the results; empty: the run folder's name with -scale appended"},
    {ENUM(device, backend, "auto", backend_choice_names), KEY_RUNTIME,
     "Device that computes; auto: GPU if there is one"},
    {INT(device, index, "-1", -1, 1023), KEY_RUNTIME,
     "GPU of each rank among the visible ones; -1: by the rank's number on its host"},
    {INT(device, threads, "0", 0, 1024), KEY_RUNTIME,
     "Compute threads per rank; 0: one per CPU that the rank may use"},
    {ENUM(device, bind, "auto", bind_choice_names), KEY_RUNTIME,
     "CPU binding of ranks. auto: on hosts with several NUMA nodes, each rank gets the CPUs near "
     "its GPU, or an equal part, unless the launcher has bound ranks already; none: no binding by "
     "Convoy"},
    {DOUBLE(device, peak_tflops, "0", 0, 1e6), KEY_RUNTIME,
     "Peak of a GPU, or of a rank's CPUs, in TFLOP/s of dense products in the run's precision; mfu "
     "in records is relative to it. 0: from the GPU's data sheet, where known; else records have "
     "no mfu"},
    {BOOL(device, emulate, "false"), KEY_RUNTIME,
     "CPU: allow train.precision bf16 on CPUs without instructions for it (no AVX-512); slow, for "
     "tests"},
    {BOOL(device, winograd, "true"), KEY_MATH,
     "CPU, fp32: compute 3x3 convolutions with stride 1 by Winograd's F(4x4,3x3) where that is "
     "faster, which the shape and the batch per rank decide; false: direct sums, which round "
     "differently"},
    {BOOL(device, cuda_graph, "true"), KEY_RUNTIME,
     "GPU: record a step once as a CUDA graph and replay it; false: launch every kernel of every "
     "step"},
    {INT(device, side_depth, "2", 0, 64), KEY_RUNTIME,
     "GPU: maximum number of weight gradients that may run late, on a second stream; each keeps "
     "its inputs in memory for longer. 0: all on one stream. Same results, bit for bit"},
    {STRING(device, fuse, "auto"), KEY_RUNTIME,
     "Fuse batch norm with neighbouring convolutions; none: nowhere. CPU, evaluation: norm, "
     "residual and activation become the end of the convolution (epilogue); auto: where its "
     "weights are few compared to its output; all: wherever oneDNN can. GPU, fp16, training: parts "
     "of the norm; in any precision max pooling after a norm (pool, pool_gradient); in 16-bit "
     "precisions the stored signs at ends of blocks (signs), and the norm of the shortcut there "
     "(shortcut); auto: where measured to be faster, shape by shape, with results kept in "
     "device.plan_cache; all: wherever cuDNN can. Or a list of patterns, separated by commas, to "
     "use wherever possible: statistics, prologue, block_end, block_end_with_shortcut, gradient, "
     "residual_gradient, shortcut_gradient, epilogue, pool, pool_gradient, signs, shortcut"},
    {ENUM(device, batchnorm, "own", kernel_mode_names), KEY_RUNTIME,
     "GPU: batch norm in training. own: Convoy's kernels, nothing to compile; cudnn: cuDNN's norm "
     "graphs wherever one does exactly the same, each compiled at the first start (seconds) and "
     "kept in device.plan_cache; auto: whichever was measured to be faster, shape by shape, with "
     "results kept there too"},
    {ENUM(device, depthwise, "own", kernel_mode_names), KEY_RUNTIME,
     "GPU: 3x3 and 5x5 depthwise convolutions (EfficientNet). own: Convoy's kernels; cudnn: "
     "cuDNN's engines, the fast ones compiled at the first start; auto: whichever was measured to "
     "be faster, as above"},
    {ENUM(device, attention, "auto", kernel_mode_names), KEY_RUNTIME,
     "GPU: attention of transformers in 16-bit precisions; fp32 and tf32 use Convoy's kernels. "
     "own: Convoy's kernels, in fp32 without tensor cores; "
     "cudnn: cuDNN's fused engines wherever there is one, compiled at the first start; auto: the "
     "same, but with device.plan_cache only those measured to be faster"},
    {INT(device, workspace_mb, "0", 0, 65536), KEY_RUNTIME,
     "GPU: maximum scratch memory of one operation in MiB; 0: 256 in 16-bit precisions, and 2048 "
     "in fp32 and tf32, where fast convolutions need more"},
    {STRING(device, plan_cache, ""), KEY_RUNTIME,
     "GPU: folder that keeps chosen convolution plans for later runs; empty: plan-cache next to "
     "the run folder; none: do not keep them"},
};
/* clang-format on */

const int config_key_count = (int)(sizeof config_keys / sizeof config_keys[0]);
_Static_assert(sizeof config_keys / sizeof config_keys[0] <= CONFIG_KEY_MAX,
               "raise CONFIG_KEY_MAX");
