/* options.c - the names of the choices in options.h. */
#include "data/options.h"

const char *const data_format_names[DATA_FORMAT_COUNT + 1] = {
    [DATA_AUTO] = "auto",       [DATA_IMAGEFOLDER] = "imagefolder", [DATA_IDX] = "idx",
    [DATA_SHARDS] = "shards",   [DATA_WEBDATASET] = "webdataset",   [DATA_TFRECORD] = "tfrecord",
    [DATA_CIFAR] = "cifar",     [DATA_SYNTHETIC] = "synthetic",     [DATA_LIST] = "list",
    [DATA_FAIRSEQ] = "fairseq",
};
const char *const label_kind_names[LABELS_COUNT + 1] = {
    [LABELS_SINGLE] = "single", [LABELS_MULTI] = "multi"
};
const char *const data_role_names[DATA_ROLE_COUNT + 1] = {
    [DATA_TRAIN] = "train", [DATA_VAL] = "val"
};
const char *const augment_names[AUGMENT_COUNT + 1] = { [AUGMENT_NONE] = "none",
                                                       [AUGMENT_IMAGENET] = "imagenet",
                                                       [AUGMENT_CIFAR] = "cifar",
                                                       [AUGMENT_AIRBENCH] = "airbench" };
const char *const interpolation_names[INTERPOLATION_COUNT + 1] = {
    [INTERPOLATION_BILINEAR] = "bilinear",
    [INTERPOLATION_BICUBIC] = "bicubic",
    [INTERPOLATION_RANDOM] = "random"
};
const char *const auto_policy_names[POLICY_COUNT + 1] = { [POLICY_NONE] = "none",
                                                          [POLICY_RANDAUGMENT] = "randaugment",
                                                          [POLICY_AUTOAUGMENT] = "autoaugment",
                                                          [POLICY_TRIVIALAUGMENT] =
                                                              "trivialaugment",
                                                          [POLICY_AUGMIX] = "augmix",
                                                          [POLICY_RANDAUGMENT_TIMM] =
                                                              "randaugment_timm" };
const char *const autoaugment_table_names[AUTOAUGMENT_TABLE_COUNT + 1] = {
    [AUTOAUGMENT_IMAGENET] = "imagenet",
    [AUTOAUGMENT_CIFAR10] = "cifar10",
    [AUTOAUGMENT_SVHN] = "svhn"
};
const char *const sampling_names[SAMPLING_COUNT + 1] = { [SAMPLING_BILINEAR] = "bilinear",
                                                         [SAMPLING_NEAREST] = "nearest",
                                                         [SAMPLING_BICUBIC] = "bicubic",
                                                         [SAMPLING_RANDOM] = "random" };
const char *const huffman_decoder_names[HUFFMAN_DECODER_COUNT + 1] = {
    [HUFFMAN_FAST] = "fast", [HUFFMAN_STOCK] = "stock"
};
const char *const seek_use_names[SEEK_USE_COUNT + 1] = { [SEEK_AUTO] = "auto", [SEEK_OFF] = "off" };
const char *const token_break_names[BREAK_COUNT + 1] = { [BREAK_NONE] = "none",
                                                         [BREAK_COMPLETE] = "complete",
                                                         [BREAK_COMPLETE_DOC] = "complete_doc",
                                                         [BREAK_EOS] = "eos" };
const char *const data_cache_names[DATA_CACHE_COUNT + 1] = { [DATA_CACHE_PAGE] = "page",
                                                             [DATA_CACHE_RAM] = "ram",
                                                             [DATA_CACHE_DISK] = "disk",
                                                             [DATA_CACHE_NONE] = "none" };
const char *const sample_order_names[ORDER_COUNT + 1] = {
    [ORDER_SHUFFLE] = "shuffle", [ORDER_BALANCED] = "balanced"
};
