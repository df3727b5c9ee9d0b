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
    {STRING(model, name, "resnet50"), KEY_MATH, "Network; convoy inspect model NAME shows one"},
    {STRING(model, init, ""), KEY_RUNTIME,
     "Safetensors file whose weights a new run starts from: a checkpoint, or saved by torchvision "
     "or timm; or the folder of a run, for the trained weights of its best; rows of the last layer "
     "go to the classes of their names, and what has none, or other weights of another number of "
     "classes, starts afresh"},
    {STRING(model, freeze, ""), KEY_MATH,
     "Parameters that training leaves as they are: a stage or layer with all before it (layer2), "
     "or patterns of names (*.bias); several between commas"},
    {INT(model, classes, "0", 0, 1e6), KEY_MATH,
     "Number of classes; 0 takes it from the training set"},
    {INT(model, in_channels, "3", 1, 16), KEY_MATH,
     "Channels of an image: 3 for colour, 1 for grey"},
    {ENUM(model, stem, "imagenet", stem_names), KEY_MATH,
     "First layers: those of the paper (imagenet), or for small images a 3x3 convolution of stride "
     "1 (ResNet-18 to -152, without the max pooling, RegNets, MobileNets, EfficientNets)"},
    {ENUM(model, blurpool, "none", blurpool_names), KEY_MATH,
     "ResNets: 3x3 blurs where images shrink: before convolutions with a stride (ffcv), there and "
     "at the max pool (composer), or behind the 3x3 and the max pool (timm's resnetblur)"},
    {ENUM(model, bn, "train", bn_choice_names), KEY_MATH,
     "Batch norm by the statistics of a rank's batch, by those of several ranks (sync), or by "
     "frozen running statistics (gamma and beta still train)"},
    {INT(model, bn_group, "0", 0, 1e6), KEY_MATH,
     "Ranks in a row that share the statistics of model.bn: sync; 0: all"},
    {BOOL(model, zero_init_last_gamma, "false"), KEY_MATH,
     "Start the last batch norm of each residual block at zero, so that blocks begin as the "
     "identity"},
    {DOUBLE(model, stochastic_depth, "-1", -1, 1), KEY_MATH | KEY_OPEN_MAX,
     "Share of images for which training drops the last residual block (less for earlier ones); "
     "-1 is the network's own: 0.2 of EfficientNets, 0.1 to 0.5 of ConvNeXts, none of others"},
    {DOUBLE(model, dropout, "-1", -1, 1), KEY_MATH | KEY_OPEN_MAX,
     "Share of the features that training drops before the last layer; -1 is the network's own: "
     "of ResNets none"},
    {DOUBLE(model, attention_dropout, "0", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "Share of the softmax's weights that training drops in each head of vision transformers"},

    {STRING(data, dir, ""), KEY_RUNTIME,
     "Stands for data.train and data.val: its folders train and val, or the folder itself with "
     "data.val_split and where it holds tar, TFRecord, IDX or CIFAR files, whose names tell the "
     "sets apart"},
    {STRING(data, train, ""), KEY_RUNTIME,
     "Training set: a folder or, where its format is that, a file"},
    {STRING(data, val, ""), KEY_RUNTIME, "Folder of the validation set; empty means no evaluation"},
    {DOUBLE(data, val_split, "0", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "Share of each class of data.train that is held out and validates in place of data.val; which "
     "images follows from their names and val_split_seed"},
    {INT(data, val_split_seed, "0", 0, 9e15), KEY_MATH,
     "Another number holds other images out"},
    {STRING(data, class_map, ""), KEY_MATH,
     "Text file that lists the classes to train on, a line each in the order of labels: the set's "
     "name of it, and behind a tab another to call it by; lines with one name are one class, and "
     "images of other classes are left out; generated images keep their classes"},
    {ENUM(data, format, "auto", data_format_names), KEY_RUNTIME,
     "How the images are kept: one folder a class (imagefolder), what convoy pack writes (shards), "
     "tar files (webdataset), tfrecord, a text file of paths and classes (list), the binary files "
     "of MNIST (idx) or CIFAR (cifar), or generated ones; auto looks"},
    {BOOL(data, allow_empty_classes, "false"), KEY_RUNTIME,
     "Class folders without an image are classes too, in a tar as well, as with torchvision's "
     "allow_empty, and data.val may lack classes of data.train; false refuses both"},
    {ENUM(data, order, "shuffle", sample_order_names), KEY_MATH,
     "Training images: each once an epoch (shuffle), or drawn so that all classes come equally "
     "often, those of small classes several times an epoch (balanced)"},
    {STRING(data, index, "auto"), KEY_RUNTIME,
     "Where the list of the images is kept between runs: a folder, or a file ending in .index; "
     "auto is the folder index beside the run folder, off lists them at every start"},
    {INT(data, image_size, "224", 8, 4096), KEY_MATH,
     "Height and width of the images that the network sees"},
    {HEAD(data, eval_resize, KEY_INT), "auto", 0, 8192, "auto", NULL, 0, KEY_MATH,
     "Evaluation scales the shorter side to this before the centre crop; 0 means image_size. auto: "
     "in the network's own ratio of both (convoy inspect model), rounded down; a run that goes on "
     "keeps what it has had"},
    {INT(data, train_size, "0", 0, 4096), KEY_MATH,
     "Height and width of training images where evaluation has others: 176 for 224, say; 0 means "
     "image_size"},
    {LIST(data, progressive_sizes, "", 8, 4096), KEY_MATH,
     "Progressive resizing: sizes that training images have first, one after the other (at most "
     "7), before they have train_size, or image_size; evaluation always has image_size"},
    {LIST(data, progressive_until, "", 1, 1e6), KEY_MATH,
     "Progressive resizing: for each of those sizes the epoch, counted from 1, with which it ends"},
    {LIST(data, mean, "0.485, 0.456, 0.406", -1e3, 1e3), KEY_MATH,
     "Subtracted from pixels in 0..1; one value, or one for each channel"},
    {LIST(data, std, "0.229, 0.224, 0.225", 1e-6, 1e3), KEY_MATH,
     "Divides pixels after the mean is subtracted; one value, or one for each channel"},
    {ENUM(data, augment, "imagenet", augment_names), KEY_MATH,
     "Training images: random resized crop and flip (imagenet), random crop of the image padded "
     "by an eighth of its size and flip (cifar), moved by up to 2 reflected pixels and flipped in "
     "every other epoch (airbench), or as in evaluation (none)"},
    {DOUBLE(data, min_crop_area, "0.08", 0, 1), KEY_MATH | KEY_OPEN_MIN,
     "augment imagenet: smallest share of the image that a crop may be of (torchvision's scale, "
     "timm's --scale)"},
    {NAMES(data, interpolation, "bilinear", NULL, interpolation_names, INTERPOLATION_RANDOM),
     KEY_MATH,
     "How images are resized, in training and evaluation; both are Pillow's, with antialiasing"},
    {NAMES(data, train_interpolation, "same", "same", interpolation_names, INTERPOLATION_COUNT),
     KEY_MATH,
     "The same for training images alone; random draws one of the two for each, as timm does"},
    {ENUM(data, decoder, "fast", huffman_decoder_names), KEY_RUNTIME,
     "JPEG: read Huffman codes by Convoy's own decoder where it can, or always by libjpeg (stock); "
     "same pixels"},
    {ENUM(data, seek_index, "auto", seek_use_names), KEY_RUNTIME,
     "JPEG: auto uses positions of rows, from shards or made while files are read for the first "
     "time, to skip what lies above a crop; same pixels"},
    {INT(data, seek_index_mb, "1024", 0, 1e6), KEY_RUNTIME,
     "Most MiB of memory of a rank for such positions; 1000 images of ImageNet take 0.6 MiB, or "
     "3.4 for a little more speed where so much is left for each"},
    {LIST(data, color_jitter, "0, 0, 0, 0", 0, 100), KEY_MATH,
     "Training: brightness, contrast, saturation and hue are changed by random factors, in random "
     "order; each value is torchvision's, hue at most 0.5; 0 leaves alone"},
    {ENUM(data, auto_augment, "none", auto_policy_names), KEY_MATH,
     "Training: automatic augmentation after crop, flip and color_jitter, as torchvision's "
     "transform of that name; randaugment_timm is timm's rand-m9-mstd0.5-inc1"},
    {INT(data, randaugment_ops, "2", 1, 16), KEY_MATH,
     "randaugment, randaugment_timm: operations one after the other"},
    {INT(data, randaugment_magnitude, "9", 0, 999), KEY_MATH,
     "randaugment: their strength, below magnitude_bins; randaugment_timm: at most 10"},
    {DOUBLE(data, randaugment_std, "0.5", 0, 100), KEY_MATH,
     "randaugment_timm: deviation of the strength, which is normal and cut to 0..10"},
    {INT(data, magnitude_bins, "31", 2, 1000), KEY_MATH,
     "randaugment and trivialaugment: strengths that an operation is divided into"},
    {ENUM(data, autoaugment_policy, "imagenet", autoaugment_table_names), KEY_MATH,
     "autoaugment: the data set for which its policy was found"},
    {INT(data, augmix_severity, "3", 1, 10), KEY_MATH,
     "augmix: strengths, of ten, from which one is drawn"},
    {ENUM(data, auto_augment_interpolation, "bilinear", sampling_names), KEY_MATH,
     "How automatic augmentation shears, moves and rotates; random draws bilinear or bicubic for "
     "each operation, as timm does"},
    {LIST(data, auto_augment_fill, "0", 0, 255), KEY_MATH,
     "Pixel that shearing, moving and rotating bring in; one value, or one for each channel"},
    {DOUBLE(data, random_erase, "0", 0, 1), KEY_MATH,
     "Training: probability with which a box of the image is erased, 0.02 to 0.33 of its area"},
    {ENUM(data, erase_mode, "const", input_erase_names), KEY_MATH,
     "random_erase: the box becomes the mean colour (const), one normal draw a channel (rand), or "
     "one for each value (pixel), as timm's"},
    {DOUBLE(data, mixup, "0", 0, 100), KEY_MATH,
     "Training: alpha of mixup, which blends each image and its target with its neighbour's; 0 "
     "means off"},
    {DOUBLE(data, cutmix, "0", 0, 100), KEY_MATH,
     "Training: alpha of cutmix, which takes a box from the neighbour; with mixup on too, one "
     "of them is chosen each time (mixup_switch_prob)"},
    {DOUBLE(data, mixup_prob, "1", 0, 1), KEY_MATH | KEY_OPEN_MIN,
     "Training: share of the batches that mixup and cutmix change at all"},
    {DOUBLE(data, mixup_switch_prob, "0.5", 0, 1),
     KEY_MATH | KEY_OPEN_MIN | KEY_OPEN_MAX,
     "Training: how often it is cutmix where mixup is on too"},
    {INT(data, mixup_off_epoch, "0", 0, 1e6), KEY_MATH,
     "Training: mixup and cutmix end when so many epochs are over; 0 means never"},
    {ENUM(data, tta, "none", tta_choice_names), KEY_RUNTIME,
     "Evaluation averages the logits of several views of an image: its mirror image too (flip, "
     "twice the cost), or both of them at half the weight and both moved by one pixel up and to "
     "the left, and down and to the right, reflected at the edges (airbench, six times the cost)"},
    {INT(data, repeated_augmentation, "1", 1, 256), KEY_MATH,
     "Training: how many differently augmented views of each sample a global batch holds; an epoch "
     "then has fewer samples (repeated augmentation)"},
    {INT(data, threads, "0", 0, 1024), KEY_RUNTIME,
     "Decode threads of each rank; 0 chooses by the CPUs that the rank may use"},
    {INT(data, readers, "0", 0, 256), KEY_RUNTIME,
     "Threads of each rank that read files ahead of the decode threads; 0 starts with 2 and takes "
     "as many as it needs for the decode threads not to wait"},
    {DOUBLE(data, read_ahead_mb, "64", 0, 65536), KEY_RUNTIME | KEY_OPEN_MIN,
     "How many MiB of files each rank reads ahead of the decode threads"},
    {ENUM(data, cache, "page", data_cache_names), KEY_RUNTIME,
     "What keeps files that were read: the kernel's page cache, memory that the ranks of a node "
     "share and that keeps what it has (ram), the same in a file of cache_dir, which outlives the "
     "run (disk), or nothing (none)"},
    {INT(data, cache_mb, "0", 0, 1e9), KEY_RUNTIME,
     "With cache ram or disk: MiB of files that a node keeps; 0 takes up to half of the memory or "
     "disk that is free there"},
    {STRING(data, cache_dir, ""), KEY_RUNTIME,
     "With cache disk: a folder on a disk of each node"},
    {DOUBLE(data, max_bad_fraction, "0.01", 0, 1), KEY_RUNTIME,
     "Training fails when more than this share of the images (but at least 10) cannot be decoded"},
    {INT(data, synthetic_images, "1024", 1, 1e9), KEY_MATH,
     "Images of each set where data.format is synthetic"},

    {DOUBLE(train, epochs, "90", 0, 1e6), KEY_MATH | KEY_OPEN_MIN,
     "Length of the run in passes over the training set; may be a fraction"},
    {INT(train, max_steps, "0", 0, 1e15), KEY_MATH,
     "Stop after this many steps in all; 0 means no limit"},
    {ENUM(train, batch_mode, "per_rank", batch_mode_names), KEY_RUNTIME,
     "Whether batch_per_rank or global_batch decides the batch"},
    {INT(train, batch_per_rank, "32", 1, 1e6), KEY_RUNTIME,
     "Images of a rank in one pass through the network; with batch_mode global, at most so many"},
    {INT(train, global_batch, "0", 0, 1e9), KEY_RUNTIME,
     "Images of a step over all ranks and passes, with batch_mode global"},
    {LIST(train, accumulate, "1", 1, 1e6), KEY_RUNTIME,
     "Passes through the network whose gradients are summed for one step; with batch_mode global, "
     "at least so many. A list is by epoch, its last value that of all further ones"},
    {NAMES(train, precision, "auto", "auto", precision_names, PRECISION_COUNT), KEY_MATH,
     "Number format of the computation; parameters stay fp32. auto: bf16 on GPUs that have it "
     "(compute capability 8.0), fp16 on older ones; on the CPU bf16 where all ranks have AMX, or "
     "AVX-512 of AMD with bf16, and it takes half of the network's work, or AMD's a quarter, else "
     "fp32. tf32 and fp16 are the GPU's alone"},
    {NAMES(train, precision_auto, "open", "open", precision_names, PRECISION_COUNT),
     KEY_MATH,
     "What auto stands for: open until a run begins, which keeps here what was chosen then and "
     "goes on in it on any machine; evaluation by itself chooses anew"},
    {DOUBLE(train, loss_scale, "65536", 1, 16777216), KEY_MATH,
     "fp16: what the loss is multiplied by at first"},
    {INT(train, loss_scale_interval, "2000", 1, 1e9), KEY_MATH,
     "fp16: the loss scale doubles after so many steps with finite gradients; any other step is "
     "skipped, halving it"},
    {ENUM(train, on_nan, "stop", on_nan_names), KEY_RUNTIME,
     "When the loss, a parameter or a running statistic is no finite number: stop ends the run "
     "with exit code 71; rollback goes on from the newest checkpoint with a lower learning rate"},
    {DOUBLE(train, rollback_lr, "0.5", 0, 1), KEY_RUNTIME | KEY_OPEN_MIN | KEY_OPEN_MAX,
     "rollback: what the learning rate is multiplied by each time, from there to the end of the "
     "run"},
    {INT(train, rollback_limit, "3", 1, 1e6), KEY_RUNTIME,
     "rollback: how many times in a run; after that it ends with exit code 71"},
    {INT(train, seed, "1", 0, 9007199254740992.0), KEY_MATH,
     "Seed of initial weights, shuffling and augmentation"},
    {DOUBLE(train, label_smoothing, "0", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "Share of the target that is spread over all classes"},
    {ENUM(train, loss, "cross_entropy", softmax_xent_loss_names), KEY_MATH,
     "What training minimises: cross entropy over the classes, or binary cross entropy (bce) of "
     "each class, as timm's; evaluation reports cross entropy"},
    {DOUBLE(train, bce_threshold, "0", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "bce: targets above it become 1, all others 0; 0 leaves them as they are"},
    {BOOL(train, bce_sum, "false"), KEY_MATH,
     "bce: sum over the classes, as Composer has it, instead of their mean"},
    {STRING(train, class_weights, ""), KEY_MATH,
     "Weight of each class in the loss: auto is images / (classes x images of the class); or a "
     "file with a number a line for each class; empty: all count alike"},
    {DOUBLE(train, eval_every, "1", 0, 1e6), KEY_RUNTIME,
     "Evaluate every so many epochs; 0 means only at the end"},

    {INT(train, patience, "0", 0, 1e6), KEY_RUNTIME,
     "Early stopping: the run ends after so many evaluations in a row that were no better than the "
     "best before; 0 never"},
    {ENUM(optimizer, name, "sgd", update_kind_names), KEY_MATH, "Update rule"},
    {DOUBLE(optimizer, lr, "0.1", 0, 1e6), KEY_MATH, "Learning rate before scaling"},
    {ENUM(optimizer, lr_scaling, "linear", lr_scaling_names), KEY_MATH,
     "Multiplies lr: linear by global batch / 256, sqrt by the root of that, world_size by the "
     "number of ranks"},
    {DOUBLE(optimizer, momentum, "0.9", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "Momentum of sgd, lars, lars_mlperf and rmsprop_tf"},
    {BOOL(optimizer, nesterov, "false"), KEY_MATH,
     "Nesterov's form of momentum, of sgd, lars and lars_mlperf"},
    {DOUBLE(optimizer, weight_decay, "0.0001", 0, 100), KEY_MATH,
     "L2 penalty of sgd, adam, lars, lars_mlperf and rmsprop_tf, decoupled decay of adamw, "
     "lamb and lion"},
    {ENUM(optimizer, decay_skip, "timm", decay_skip_names), KEY_MATH,
     "What does not decay, and lars and lamb do not adapt: biases, norms, layer scales, positions "
     "and class tokens (timm, mlperf), norms (torchvision), parameters with bn in their name "
     "(ffcv), or nothing (none)"},
    {STRING(optimizer, groups, ""), KEY_MATH,
     "Factors of lr and weight_decay by patterns of parameter names, of which the first that fits "
     "counts: \"fc.*: lr=10; *.bias: lr=64 decay=0\""},
    {DOUBLE(optimizer, head_lr, "1", 0, 1e6), KEY_MATH | KEY_OPEN_MIN,
     "Factor of the last layer's learning rate"},
    {DOUBLE(optimizer, layer_decay, "1", 0, 1), KEY_MATH | KEY_OPEN_MIN,
     "Factor of the learning rate from each block of the network to the one before it, from the "
     "last layer down (timm's --layer-decay)"},
    {HEAD(optimizer, betas, KEY_LIST), "auto", 0, 1, "auto", NULL, 0, KEY_MATH | KEY_OPEN_MAX,
     "Decay rates of the two moments of adam, adamw and lamb; of lion, its update's and its "
     "momentum's. auto: as published, 0.9, 0.99 for lion, 0.9, 0.999 for others"},
    {DOUBLE(optimizer, alpha, "0.9", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "rmsprop_tf: decay rate of the mean square"},
    {HEAD(optimizer, eps, KEY_DOUBLE), "auto", 1e-30, 1, "auto", NULL, 0, KEY_MATH,
     "Added to the root of the second moment (adam, adamw, lamb), under the root (rmsprop_tf), or "
     "to what a norm is divided by (lars, lars_mlperf). auto: as published, 1e-8 for adam, adamw "
     "and lars, 1e-7 for lars_mlperf, 1e-6 for lamb, 1e-3 for rmsprop_tf"},
    {DOUBLE(optimizer, trust_coefficient, "0.001", 0, 1e6), KEY_MATH | KEY_OPEN_MIN,
     "lars, lars_mlperf: eta, factor of the trust ratio"},
    {BOOL(optimizer, trust_clip, "false"), KEY_MATH,
     "lars: the trust ratio makes no learning rate larger than it is (LARC); lamb: the ratio is at "
     "most 1"},
    {BOOL(optimizer, always_adapt, "false"), KEY_MATH,
     "lars, lamb: trust ratios also where nothing decays"},
    {DOUBLE(optimizer, clip_norm, "0", 0, 1e30), KEY_MATH,
     "Largest norm of all gradients together, beyond which they are shrunk to it; 0 does not clip"},
    {DOUBLE(optimizer, sam_rho, "0", 0, 1e6), KEY_MATH,
     "Sharpness-aware minimisation: a step takes the gradient of weights moved so far along the "
     "gradient of the global batch, summed over ranks; two passes a step; 0 is off"},
    {INT(optimizer, sam_interval, "1", 1, 1e15), KEY_MATH,
     "sam_rho: in every so many-th step, counted from the first; 1 means all"},

    {ENUM(optimizer, lookahead, "off", lookahead_form_names), KEY_MATH,
     "Slow weights that the trained ones go back to every few steps: timm's, of parameters; or "
     "airbench's, of running statistics too, with a share that shrinks over the run, which ends "
     "with the slow ones"},
    {INT(optimizer, lookahead_steps, "6", 1, 1e9), KEY_MATH,
     "Updates from one time to the next"},
    {DOUBLE(optimizer, lookahead_alpha, "0.5", 0, 1), KEY_MATH,
     "timm: how far the slow weights go towards the trained ones"},

    {DOUBLE(ema, decay, "0", 0, 1), KEY_MATH | KEY_OPEN_MAX,
     "Decay of an exponential moving average of parameters and running statistics, which is "
     "evaluated beside them; 0 means none"},
    {DOUBLE(ema, half_life, "0", 0, 1e15), KEY_MATH,
     "timm: the decay as the steps after which a step counts half, in place of ema.decay; 0 means "
     "that counts"},
    {ENUM(ema, rule, "timm", ema_rule_names), KEY_MATH,
     "Whose rule: timm's ModelEmaV3, or that of torchvision's references, which adjusts the decay "
     "by global batch, ema.every and train.epochs, and copies while the learning rate warms up"},
    {INT(ema, every, "1", 1, 1e9), KEY_MATH,
     "Steps from one time to the next; torchvision's 32 are counted within each epoch"},
    {BOOL(ema, warmup, "false"), KEY_MATH,
     "timm: in update n the decay is at most 1 - n^(-2/3)"},
    {BOOL(ema, best, "true"), KEY_RUNTIME,
     "The average decides which checkpoint is the best, and is what eval, predict and export take; "
     "false: the trained weights"},

    {ENUM(schedule, name, "cosine", schedule_shape_names), KEY_MATH,
     "Course of the learning rate after warmup; triangular is a straight line"},
    {DOUBLE(schedule, warmup_epochs, "5", 0, 1e6), KEY_MATH,
     "Epochs of linear rise to the learning rate; 0 means none"},
    {INT(schedule, warmup_steps, "0", 0, 1e15), KEY_MATH,
     "The rise in steps, in place of warmup_epochs; 0 means that those count"},
    {DOUBLE(schedule, warmup_lr, "-1", -1, 1e6), KEY_MATH,
     "Learning rate of the first step of the rise, which lr_scaling leaves as it is; 0 moves "
     "nothing in that step. -1: of w steps the first has 1/w of the learning rate, the last all"},
    {DOUBLE(schedule, min_lr, "0", 0, 1e6), KEY_MATH,
     "Where cosine, poly and triangular end, and what step and exponential do not fall below"},
    {DOUBLE(schedule, power, "1", 0, 100), KEY_MATH | KEY_OPEN_MIN, "Exponent of poly"},
    {INT(schedule, decay_steps, "0", 0, 1e15), KEY_MATH,
     "Steps that cosine, poly and triangular take to min_lr, however long the run is; 0 means to "
     "its end"},
    {ENUM(schedule, decay_from, "warmup", decay_from_names), KEY_MATH,
     "cosine and poly count their steps from the end of warmup, or from the start of the run as "
     "timm does"},
    {LIST(schedule, milestones, "30, 60, 80", 0, 1e6), KEY_MATH,
     "Epochs, ascending, at which step multiplies the learning rate by gamma"},
    {DOUBLE(schedule, gamma, "0.1", 0, 1), KEY_MATH | KEY_OPEN_MIN,
     "Factor of step and of exponential"},
    {DOUBLE(schedule, decay_epochs, "2.4", 0, 1e6), KEY_MATH | KEY_OPEN_MIN,
     "exponential multiplies the learning rate by gamma every so many epochs, those of warmup "
     "counted too"},

    {DOUBLE(comm, bucket_mb, "200", 0, 65536), KEY_RUNTIME | KEY_OPEN_MIN,
     "Most MiB of gradients that are summed over ranks in one piece"},
    {DOUBLE(comm, first_bucket_mb, "0", 0, 65536), KEY_RUNTIME,
     "The same for the first piece; 0 means as the others"},
    {DOUBLE(comm, timeout_s, "600", 0, 1e6), KEY_RUNTIME,
     "Seconds without an answer after which a peer counts as lost; 0 waits for ever"},
    {INT(comm, max_ctas, "16", 0, 64), KEY_RUNTIME,
     "GPU: most thread blocks that NCCL may take from the computation while it sums; 0 leaves it "
     "to NCCL"},
    {ENUM(comm, grad_dtype, "auto", grad_dtype_names), KEY_MATH,
     "GPU: number format in which gradients are summed over ranks. auto: bf16 where the "
     "computation is 16-bit and NCCL sums at most 16 ranks, else fp32"},
    {BOOL(comm, zero_copy, "true"), KEY_RUNTIME,
     "GPU: gradients are summed in memory that NCCL has allocated and registered, so that it need "
     "not copy them; it may take more than they need"},

    {DOUBLE(watchdog, start_s, "3600", 0, 1e7), KEY_RUNTIME,
     "A rank that needs more seconds to its first step, the start of MPI included, ends the run "
     "with exit code 76; 0 means no limit"},
    {DOUBLE(watchdog, step_s, "1200", 0, 1e7), KEY_RUNTIME,
     "The same for a step of training; keep it above comm.timeout_s, which names the operation "
     "that a peer misses in"},
    {DOUBLE(watchdog, evaluation_s, "1200", 0, 1e7), KEY_RUNTIME,
     "The same for a batch of evaluation"},
    {DOUBLE(watchdog, checkpoint_s, "1200", 0, 1e7), KEY_RUNTIME, "The same for a checkpoint"},
    {DOUBLE(watchdog, disconnect_s, "25", 0, 1e7), KEY_RUNTIME,
     "Seconds without an answer from mpirun after which a host that makes no progress counts as "
     "cut off: its ranks exit with code 76, and so does mpirun's daemon there; 0 means no limit"},

    {DOUBLE(checkpoint, every_epochs, "1", 0, 1e6), KEY_RUNTIME,
     "Save every so many epochs; 0 means only at the end"},
    {INT(checkpoint, every_steps, "0", 0, 1e15), KEY_RUNTIME,
     "Save every so many steps as well; 0 means off"},
    {INT(checkpoint, keep, "3", 1, 1e6), KEY_RUNTIME,
     "How many of the newest checkpoints stay (at least 2 with train.on_nan: rollback); the best "
     "one always does"},
    {STRING(checkpoint, resume, "auto"), KEY_RUNTIME,
     "auto continues the run folder if it holds a checkpoint, none starts afresh, anything else "
     "names the file to continue from"},

    {STRING(checkpoint, on_save, ""), KEY_RUNTIME,
     "Command that rank 0 runs beside the training for each checkpoint that is on disk, such as a "
     "copy to an object store; CONVOY_CHECKPOINT, CONVOY_STEP and CONVOY_RUN_DIR say which; empty "
     "means none"},
    {DOUBLE(checkpoint, on_save_timeout_s, "600", 0, 1e6), KEY_RUNTIME | KEY_OPEN_MIN,
     "Seconds that on_save may take, for a checkpoint and again at the end of the run; then it is "
     "killed"},

    {INT(log, every, "1", 1, 1e9), KEY_RUNTIME, "Record every so many steps"},
    {BOOL(log, grad_norm, "false"), KEY_RUNTIME,
     "Record the norm of all gradients before clipping; done anyway where optimizer.clip_norm is "
     "set"},
    {ENUM(log, format, "line", log_format_names), KEY_RUNTIME,
     "What is printed: a progress line (line); Step, Epoch, Speed, Loss, FinLoss and LR of "
     "steps 0, 1 and every log.every-th, counted from 0 (table); a line of each rank for each "
     "epoch, and a table at the end (epoch); the records of metrics.jsonl (json)"},
    {STRING(log, file, ""), KEY_RUNTIME,
     "A log file of each rank, with its recorded steps: %r is the rank, %w the number of ranks, %h "
     "the host, %% a per cent sign; a path from the run folder, out of it too by ../, unless it "
     "begins with a slash; empty means none"},
    {STRING(log, trace_steps, ""), KEY_RUNTIME,
     "Steps, such as 100-104, of which each rank writes what its threads and its device did, as "
     "trace-RANK.json in the run folder for Perfetto or chrome://tracing; empty means none"},
    {BOOL(monitor, tensorboard, "false"), KEY_RUNTIME,
     "Write event files for TensorBoard into the folder tensorboard of the run folder"},
    {STRING(monitor, prometheus, ""), KEY_RUNTIME,
     "File to replace every monitor.every_s with metrics for Prometheus (node_exporter's textfile "
     "collector), by the first rank of each host; %h is the host; empty means none"},
    {STRING(monitor, emf, ""), KEY_RUNTIME,
     "File to which lines of CloudWatch's embedded metric format are added every monitor.every_s, "
     "by the first rank of each host; %h is the host, - alone is standard output, of rank 0's "
     "host only; empty means none"},
    {ENUM(monitor, gpu, "auto", monitor_gpu_names), KEY_RUNTIME,
     "Watch the GPUs of each host through NVML; auto: where the run computes on them and the "
     "driver has NVML"},
    {DOUBLE(monitor, every_s, "10", 1, 1e6), KEY_RUNTIME,
     "Seconds between two looks that are written down"},
    {DOUBLE(cost, price_per_host_hour, "0", 0, 1e9), KEY_RUNTIME,
     "What an hour of a host costs, for the sums in records and reports; 0 means that it is not "
     "told. No price comes with Convoy"},
    {DOUBLE(cost, price_per_kwh, "0", 0, 1e9), KEY_RUNTIME,
     "What a kWh costs, where it is paid beside the hours of hosts; 0 means that it is not told"},
    {STRING(cost, currency, ""), KEY_RUNTIME, "Of the prices, as it is printed: USD"},
    {STRING(cost, price_note, ""), KEY_RUNTIME,
     "What the prices are, printed beside every sum: p5.48xlarge, capacity block, 2024-12"},
    {DOUBLE(cost, pue, "1", 1, 10), KEY_RUNTIME,
     "Power usage effectiveness: what the building takes for each watt of a host"},
    {DOUBLE(cost, grams_per_kwh, "0", 0, 1e5), KEY_RUNTIME,
     "Grams of CO2 for each kWh; 0 means that it is not told"},
    {DOUBLE(cost, host_watts, "0", 0, 1e6), KEY_RUNTIME,
     "Watts that a host is assumed to take, beside those of its GPUs that are measured, where the "
     "energy of its CPUs is not measured; 0 assumes nothing"},
    {STRING(cost, powercap, "/sys/class/powercap"), KEY_RUNTIME,
     "Folder of the kernel's energy counters of CPUs; empty does not look"},
    {STRING(run, dir, ""), KEY_RUNTIME,
     "Run folder; empty means runs/ and the name of the config file"},
    {LIST(scale, ranks, "1, 2, 4, 8", 1, 65536), KEY_RUNTIME,
     "convoy scale: numbers of ranks to measure, ascending"},
    {ENUM(scale, mode, "weak", scale_mode_names), KEY_RUNTIME,
     "convoy scale: every rank has train.batch_per_rank images (weak), or all together "
     "train.global_batch (strong)"},
    {INT(scale, repeats, "3", 1, 1000), KEY_RUNTIME, "convoy scale: runs for each number of ranks"},
    {INT(scale, steps, "0", 0, 1e9), KEY_RUNTIME,
     "convoy scale: measured steps of a run; 0 measures whole epochs instead"},
    {INT(scale, warmup_steps, "10", 0, 1e9), KEY_RUNTIME,
     "convoy scale: steps before those, which do not count"},
    {INT(scale, epochs, "3", 2, 1e6), KEY_RUNTIME,
     "convoy scale: epochs of a run where scale.steps is 0; the first one does not count"},
    {ENUM(scale, data, "real", scale_data_names), KEY_RUNTIME,
     "convoy scale: trains on data.train (real), or on generated images as data.format synthetic "
     "does"},
    {STRING(scale, dir, ""), KEY_RUNTIME,
     "convoy scale: folder of the series; empty means the run folder with -scale behind its name"},
    {ENUM(device, backend, "auto", backend_choice_names), KEY_RUNTIME,
     "What computes; auto takes the GPU where there is one"},
    {INT(device, index, "-1", -1, 1023), KEY_RUNTIME,
     "GPU of each rank among the visible ones; -1 shares them out by the rank's number on its "
     "host"},
    {INT(device, threads, "0", 0, 1024), KEY_RUNTIME,
     "Compute threads of each rank; 0 takes the CPUs that the rank may use"},
    {ENUM(device, bind, "auto", bind_choice_names), KEY_RUNTIME,
     "Which CPUs a rank runs on. auto: on hosts of several NUMA nodes, of all that the host gives "
     "those near the rank's GPU, or an equal part, unless the launcher has bound ranks itself; "
     "none: those that it was started with"},
    {DOUBLE(device, peak_tflops, "0", 0, 1e6), KEY_RUNTIME,
     "Peak of a GPU, or of a rank's CPUs, in TFLOP/s of dense products in the run's precision: "
     "what mfu in records is a share of. 0: by the GPU's data sheet, where it is known; else "
     "records have no mfu"},
    {BOOL(device, emulate, "false"), KEY_RUNTIME,
     "CPU: take train.precision bf16 also where the CPU has no instructions for it (no AVX-512): "
     "slow, for tests"},
    {BOOL(device, cuda_graph, "true"), KEY_RUNTIME,
     "GPU: record a step once and replay it as a whole; false launches every kernel of every step"},
    {INT(device, side_depth, "2", 0, 64), KEY_RUNTIME,
     "GPU: weight gradients that may lag behind the rest of the backward pass, on a stream of "
     "their own; each keeps memory that it reads for longer. 0: they run in turn with the rest. "
     "Results are the same bits"},
    {STRING(device, fuse, "auto"), KEY_RUNTIME,
     "Give batch norm to the convolutions beside it; none: nowhere. CPU, evaluation: norm, "
     "residual and activation become the end of the convolution (epilogue); auto: where its "
     "weights are few against what it leaves; all: wherever oneDNN can. GPU, fp16, training: parts "
     "of the norm; in any precision max pooling behind one (pool, pool_gradient); in 16 bits the "
     "signs that ends of blocks keep (signs), and the norm of their shortcut (shortcut); auto: "
     "where that was measured to be faster, shape by shape, with the answers kept in "
     "device.plan_cache; all: wherever cuDNN can. Or some patterns between commas, wherever "
     "possible: statistics, prologue, block_end, block_end_with_shortcut, gradient, "
     "residual_gradient, shortcut_gradient, epilogue, pool, pool_gradient, signs, shortcut"},
    {ENUM(device, batchnorm, "own", kernel_mode_names), KEY_RUNTIME,
     "GPU: what normalises in training. own: our kernels, nothing to compile; cudnn: its norm "
     "graphs wherever there is one that does exactly the same, each compiled at the first start "
     "(seconds) and kept in device.plan_cache; auto: whichever was measured to be faster, shape by "
     "shape, with the answers kept there too"},
    {ENUM(device, depthwise, "own", kernel_mode_names), KEY_RUNTIME,
     "GPU: what runs 3x3 and 5x5 convolutions with one filter for each channel (EfficientNet). "
     "own: our kernels; cudnn: its engines, of which the fast ones are compiled at the first "
     "start; auto: whichever was measured to be faster, as above"},
    {ENUM(device, attention, "auto", kernel_mode_names), KEY_RUNTIME,
     "GPU: what runs the attention of transformers in 16 bits without model.attention_dropout; all "
     "other is for our kernels. own: these, in fp32 without tensor cores; cudnn: its fused engines "
     "wherever there is one, compiled at the first start; auto: the same, but with "
     "device.plan_cache only those that were measured to be faster"},
    {INT(device, workspace_mb, "0", 0, 65536), KEY_RUNTIME,
     "GPU: most MiB of scratch memory of one operation; 0 means 256 in 16-bit precisions and 2048 "
     "in fp32 and tf32, whose convolutions are fast only with more"},
    {STRING(device, plan_cache, ""), KEY_RUNTIME,
     "GPU: folder for chosen convolution plans, which later runs start from; empty means "
     "plan-cache beside the run folder, none keeps nothing"},
};
/* clang-format on */

const int config_key_count = (int)(sizeof config_keys / sizeof config_keys[0]);
_Static_assert(sizeof config_keys / sizeof config_keys[0] <= CONFIG_KEY_MAX,
               "raise CONFIG_KEY_MAX");
