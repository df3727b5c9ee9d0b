/* test_models.c - the registry, the networks' parameters, and their first values. */
#include "base/mem.h"
#include "models/blocks.h"
#include "models/models.h"
#include "tests/test.h"
#include <math.h>
#include <string.h>

static ModelOptions options(int64_t channels, int64_t size, int64_t classes)
{
    ModelOptions o = { .width = 1, .stem = STEM_IMAGENET };
    o.graph = (GraphOptions){
        .batch = 1, .channels = channels, .height = size, .width = size, .classes = classes
    };
    for (int i = 0; i < OP_MAX_IMAGE_CHANNELS; i++) o.graph.std[i] = 1;
    return o;
}

/* The data that the network reads: images, or at most size tokens of so many words. */
static ModelOptions options_for(const char *name, int64_t channels, int64_t size, int64_t classes)
{
    ModelOptions o = options(channels, size, classes);
    if (model_find(name) && model_find(name)->text) {
        o.graph.tokens = size;
        o.graph.masked = 2;
    }
    return o;
}

static Graph *build(const char *name, const ModelOptions *o)
{
    Graph *g = NULL;
    CHECK(model_find(name) != NULL);
    CHECK_STATUS(model_build(&g, model_find(name), o), OK);
    return g;
}

/* Parameters and multiply-adds of torchvision's and timm's networks, counted there with
 * torch.utils.flop_counter; the others by hand:
 * CIFAR, n blocks a stage: 432 + (2n 2304) + (4608 + (2n-1) 9216) + (18432 + (2n-1) 36864) + 2 (16
 * (2n+1) + 64 n + 128 n) + 650; mlp: (784 512 + 512) + (512 512 + 512) + (512 10 + 10). */
TEST(parameter_totals)
{
    static const struct {
        const char *name;
        int64_t channels, size, classes, total, multiply_adds; /* 0: not told */
    } rows[] = {
        { "resnet18", 3, 224, 1000, 11689512, 1814073344 },
        { "resnet34", 3, 224, 1000, 21797672, 3663761408 },
        { "resnet50", 3, 224, 1000, 25557032, 4089184256 },
        { "resnet101", 3, 224, 1000, 44549160, 7801405440 },
        { "resnet152", 3, 224, 1000, 60192808, 11513626624 },
        { "resnext50_32x4d", 3, 224, 1000, 25028904, 4230479872 },
        { "resnext101_32x8d", 3, 224, 1000, 88791336, 16414015488 },
        { "resnext101_64x4d", 3, 224, 1000, 83455272, 15460270080 },
        { "wide_resnet50_2", 3, 224, 1000, 68883240, 11398021120 },
        { "wide_resnet101_2", 3, 224, 1000, 126886696, 22753050624 },
        { "convnext_tiny", 3, 224, 1000, 28589128, 0 },
        { "convnext_small", 3, 224, 1000, 50223688, 0 },
        { "convnext_base", 3, 224, 1000, 88591464, 0 },
        { "convnext_large", 3, 224, 1000, 197767336, 0 },
        { "convnextv2_atto", 3, 224, 1000, 3708400, 547332480 },
        { "convnextv2_nano", 3, 224, 1000, 15623800, 2445528320 },
        { "convnextv2_tiny", 3, 224, 1000, 28635496, 4455531264 },
        { "convnextv2_base", 3, 224, 1000, 88717800, 15354729472 },
        { "vit_b_16", 3, 224, 1000, 86567656, 17563828224 },
        { "vit_b_32", 3, 224, 1000, 88224232, 4409186304 },
        { "vit_l_16", 3, 224, 1000, 304326632, 61554712576 },
        { "deit_tiny_patch16_224", 3, 224, 1000, 5717416, 1253683200 },
        { "deit_small_patch16_224", 3, 224, 1000, 22050664, 4598882304 },
        { "deit_base_patch16_224", 3, 224, 1000, 86567656, 17563828224 },
        { "vit_tiny_patch16_224", 3, 224, 1000, 5717416, 1253683200 },
        { "vit_small_patch16_224", 3, 224, 1000, 22050664, 4598882304 },
        { "vit_base_patch16_224", 3, 224, 1000, 86567656, 17563828224 },
        { "vit_large_patch16_224", 3, 224, 1000, 304326632, 61554712576 },
        { "vit_small_patch14_dinov2", 3, 518, 1000, 22441192, 0 },
        { "vit_base_patch14_dinov2", 3, 518, 1000, 87348712, 0 },
        { "efficientnet_b0", 3, 224, 1000, 5288548, 385814752 },
        { "efficientnet_b1", 3, 240, 1000, 7794184, 686802832 },
        { "efficientnet_b2", 3, 288, 1000, 9109994, 1087529456 },
        { "efficientnet_b3", 3, 300, 1000, 12233232, 1827141392 },
        { "efficientnet_b4", 3, 380, 1000, 19341616, 4393771024 },
        { "efficientnet_b5", 3, 456, 1000, 30389784, 10266384752 },
        { "efficientnet_b6", 3, 528, 1000, 43040704, 19067593536 },
        { "efficientnet_b7", 3, 600, 1000, 66347960, 37745884192 },
        { "tf_efficientnet_b0", 3, 224, 1000, 5288548, 385814752 },
        { "tf_efficientnet_b1", 3, 240, 1000, 7794184, 686802832 },
        { "tf_efficientnet_b2", 3, 260, 1000, 9109994, 993561872 },
        { "tf_efficientnet_b3", 3, 300, 1000, 12233232, 1827141392 },
        { "tf_efficientnet_b4", 3, 380, 1000, 19341616, 4393771024 },
        { "tf_efficientnet_b5", 3, 456, 1000, 30389784, 10266384752 },
        { "tf_efficientnet_b6", 3, 528, 1000, 43040704, 19067593536 },
        { "tf_efficientnet_b7", 3, 600, 1000, 66347960, 37745884192 },
        { "efficientnet_v2_s", 3, 384, 1000, 21458488, 8365617152 },
        { "efficientnet_v2_m", 3, 480, 1000, 54139356, 24582460384 },
        { "efficientnet_v2_l", 3, 480, 1000, 118515272, 56079699008 },
        { "mobilenet_v2", 3, 224, 1000, 3504872, 300774272 },
        { "mobilenet_v3_large", 3, 224, 1000, 5483032, 216589760 },
        { "mobilenet_v3_small", 3, 224, 1000, 2542856, 56510400 },
        { "mobilenetv3_large_100", 3, 224, 1000, 5483032, 216589760 },
        { "mobilenetv3_small_100", 3, 224, 1000, 2542856, 56510400 },
        { "regnet_x_400mf", 3, 224, 1000, 5495976, 413812608 },
        { "regnet_x_800mf", 3, 224, 1000, 7259656, 799699712 },
        { "regnet_x_1_6gf", 3, 224, 1000, 9190136, 1602849792 },
        { "regnet_x_3_2gf", 3, 224, 1000, 15296552, 3176621952 },
        { "regnet_x_8gf", 3, 224, 1000, 39572648, 7995132416 },
        { "regnet_x_16gf", 3, 224, 1000, 54278536, 15940755456 },
        { "regnet_x_32gf", 3, 224, 1000, 107811560, 31735929792 },
        { "regnet_y_400mf", 3, 224, 1000, 4344144, 401842848 },
        { "regnet_y_800mf", 3, 224, 1000, 6432512, 833856256 },
        { "regnet_y_1_6gf", 3, 224, 1000, 11202430, 1612076160 },
        { "regnet_y_3_2gf", 3, 224, 1000, 19436338, 3176482752 },
        { "regnet_y_8gf", 3, 224, 1000, 39381472, 8473070592 },
        { "regnet_y_16gf", 3, 224, 1000, 83590140, 15911510272 },
        { "regnet_y_32gf", 3, 224, 1000, 145046770, 32279552832 },
        { "seresnet50", 3, 224, 1000, 28088024, 4091699200 },
        { "resnet50d", 3, 224, 1000, 25576264, 4328824832 },
        { "resnet20", 3, 32, 10, 269722, 0 },
        { "resnet32", 3, 32, 10, 464154, 0 },
        { "resnet44", 3, 32, 10, 658586, 0 },
        { "resnet56", 3, 32, 10, 853018, 0 },
        { "resnet110", 3, 32, 10, 1727962, 0 },
        { "mlp", 1, 28, 10, 669706, 669706 - 512 - 512 - 10 },
        { "airbench94", 3, 32, 10, 1972816, 118147360 },
        { "roberta_tiny", 0, 512, 50265, 6963545, 0 },
        { "roberta_mini", 0, 512, 50265, 16275545, 0 },
        { "roberta_base", 0, 512, 50265, 124696665, 0 },
        { "roberta_large", 0, 512, 50265, 355411033, 0 },
        { "bert_tiny", 0, 512, 30522, 4433468, 0 },
        { "bert_mini", 0, 512, 30522, 11267900, 0 },
        { "bert_base", 0, 512, 30522, 110106428, 0 },
        { "bert_large", 0, 512, 30522, 336226108, 0 },
    };
    CHECK(sizeof rows / sizeof rows[0] == (size_t)model_count());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const ModelOptions o =
            options_for(rows[i].name, rows[i].channels, rows[i].size, rows[i].classes);
        Graph *g = build(rows[i].name, &o);
        CHECK(graph_parameter_elements(g) == rows[i].total);
        if (rows[i].multiply_adds) CHECK(graph_multiply_adds(g) == rows[i].multiply_adds);
        CHECK(o.graph.tokens || model_find(rows[i].name)->input.size == rows[i].size);
        graph_destroy(g);
    }
}

/* Three times those of the forward pass, but that nobody asks for the gradient of images. */
TEST(products_of_a_step_are_three_times_those_of_its_forward_pass)
{
    static const struct {
        const char *name;
        double first; /* multiply-adds of the layer that reads images */
    } rows[] = { { "resnet50", 64.0 * 3 * 7 * 7 * 112 * 112 },
                 { "vit_b_16", 768.0 * 3 * 16 * 16 * 14 * 14 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ModelOptions o = options(3, 224, 1000);
        Graph *eval = build(rows[i].name, &o);
        const double forward = 2 * (double)graph_multiply_adds(eval);
        CHECK_NEAR(graph_product_flops(eval), forward, 1);
        o.graph.training = true;
        o.graph.batch = 2;
        Graph *train = build(rows[i].name, &o);
        CHECK_NEAR(graph_product_flops(train), 2 * (3 * forward - 2 * rows[i].first), 1e3);
        graph_destroy(eval);
        graph_destroy(train);
    }
}

static void check_tensor(const Graph *g, const char *name, int rank, const int64_t *dims)
{
    const TensorId id = graph_find(g, name);
    CHECK(id != TENSOR_NONE);
    const TensorDesc want = tensor_desc(DTYPE_F32, rank, dims);
    CHECK(tensor_same_shape(&graph_tensor(g, id)->desc, &want));
}

TEST(names_and_shapes_are_torchvisions)
{
    const ModelOptions o = options(3, 224, 1000);
    Graph *g = build("resnet50", &o);
    check_tensor(g, "conv1.weight", 4, (const int64_t[]){ 64, 3, 7, 7 });
    check_tensor(g, "bn1.running_var", 1, (const int64_t[]){ 64 });
    check_tensor(g, "layer1.0.conv1.weight", 4, (const int64_t[]){ 64, 64, 1, 1 });
    check_tensor(g, "layer1.0.downsample.0.weight", 4, (const int64_t[]){ 256, 64, 1, 1 });
    check_tensor(g, "layer1.0.downsample.1.running_mean", 1, (const int64_t[]){ 256 });
    check_tensor(g, "layer3.5.conv2.weight", 4, (const int64_t[]){ 256, 256, 3, 3 });
    check_tensor(g, "layer4.2.bn3.bias", 1, (const int64_t[]){ 2048 });
    check_tensor(g, "fc.weight", 2, (const int64_t[]){ 1000, 2048 });
    check_tensor(g, "fc.bias", 1, (const int64_t[]){ 1000 });
    CHECK(graph_find(g, "layer1.1.downsample.0.weight") == TENSOR_NONE);
    graph_destroy(g);
    g = build("resnet34", &o);
    CHECK(graph_find(g, "layer1.0.downsample.0.weight") == TENSOR_NONE);
    check_tensor(g, "layer2.0.downsample.0.weight", 4, (const int64_t[]){ 128, 64, 1, 1 });
    check_tensor(g, "layer3.5.bn2.weight", 1, (const int64_t[]){ 256 });
    graph_destroy(g);
}

static const TensorDesc *node_shape(const Graph *g, const char *name)
{
    for (int i = 0; i < graph_node_count(g); i++)
        if (strcmp(graph_node(g, i)->name, name) == 0)
            return &graph_tensor(g, graph_node(g, i)->out[0])->desc;
    CHECK(!"no such node");
    return NULL;
}

TEST(efficientnets_have_the_names_of_their_flavour)
{
    const ModelOptions o = options(3, 224, 1000);
    Graph *g = build("efficientnet_b0", &o);
    check_tensor(g, "features.0.0.weight", 4, (const int64_t[]){ 32, 3, 3, 3 });
    check_tensor(g, "features.1.0.block.0.0.weight", 4, (const int64_t[]){ 32, 1, 3, 3 });
    check_tensor(g, "features.1.0.block.1.fc1.weight", 4, (const int64_t[]){ 8, 32, 1, 1 });
    check_tensor(g, "features.1.0.block.2.1.running_var", 1, (const int64_t[]){ 16 });
    check_tensor(g, "features.6.3.block.1.0.weight", 4, (const int64_t[]){ 1152, 1, 5, 5 });
    check_tensor(g, "features.6.3.block.2.fc2.bias", 1, (const int64_t[]){ 1152 });
    check_tensor(g, "features.7.0.block.3.0.weight", 4, (const int64_t[]){ 320, 1152, 1, 1 });
    check_tensor(g, "features.8.0.weight", 4, (const int64_t[]){ 1280, 320, 1, 1 });
    check_tensor(g, "classifier.1.weight", 2, (const int64_t[]){ 1000, 1280 });
    graph_destroy(g);
    g = build("tf_efficientnet_b0", &o);
    check_tensor(g, "conv_stem.weight", 4, (const int64_t[]){ 32, 3, 3, 3 });
    check_tensor(g, "blocks.0.0.conv_pw.weight", 4, (const int64_t[]){ 16, 32, 1, 1 });
    check_tensor(g, "blocks.0.0.se.conv_reduce.weight", 4, (const int64_t[]){ 8, 32, 1, 1 });
    check_tensor(g, "blocks.5.3.conv_dw.weight", 4, (const int64_t[]){ 1152, 1, 5, 5 });
    check_tensor(g, "blocks.5.3.bn3.weight", 1, (const int64_t[]){ 192 });
    check_tensor(g, "bn2.bias", 1, (const int64_t[]){ 1280 });
    check_tensor(g, "classifier.bias", 1, (const int64_t[]){ 1000 });
    graph_destroy(g);
}

/* "same" padding: a stride of 2 over 224 pixels has its one pixel of padding behind. */
TEST(flavours_pad_differently)
{
    static const struct {
        const char *model, *node;
        int before, after;
    } rows[] = { { "efficientnet_b0", "features.0.0", 1, 1 },
                 { "efficientnet_b0", "features.6.0.block.1.0", 2, 2 },
                 { "tf_efficientnet_b0", "conv_stem", 0, 1 },
                 { "tf_efficientnet_b0", "blocks.5.0.conv_dw", 1, 2 },
                 { "tf_efficientnet_b0", "blocks.4.0.conv_dw", 2, 2 } };
    const ModelOptions o = options(3, 224, 10);
    for (int r = 0; r < 5; r++) {
        Graph *g = build(rows[r].model, &o);
        int seen = 0;
        for (int i = 0; i < graph_node_count(g); i++) {
            const GraphNode *n = graph_node(g, i);
            if (n->kind != OP_CONV2D || strcmp(n->name, rows[r].node) != 0) continue;
            const Conv2dAttr *a = n->attr;
            CHECK(a->pad_top == rows[r].before && a->pad_left == rows[r].before);
            CHECK(a->pad_bottom == rows[r].after && a->pad_right == rows[r].after);
            seen++;
        }
        CHECK_INT(seen, 1);
        graph_destroy(g);
    }
}

/* 16 blocks, of which 9 keep their shape: the first of those has rate 0.2 * 2 / 16. Evaluation
 * drops nothing. */
TEST(efficientnet_drops_in_training_alone)
{
    ModelOptions o = options(3, 64, 10);
    o.stochastic_depth = o.dropout = -1;
    for (int mode = 0; mode < 3; mode++) {
        o.graph.training = mode > 0;
        if (mode == 2) o.stochastic_depth = o.dropout = 0;
        Graph *g = build("efficientnet_b0", &o);
        int images = 0, elements = 0;
        for (int i = 0; i < graph_node_count(g); i++) {
            const DropAttr *a = graph_node(g, i)->attr;
            if (graph_node(g, i)->kind != OP_DROP) continue;
            if (a->per_image && images == 0) CHECK_NEAR((double)a->rate, 0.2 * 2 / 16, 1e-7);
            if (!a->per_image) CHECK_NEAR((double)a->rate, 0.2, 1e-7);
            CHECK_INT(a->layer, images + elements);
            images += a->per_image;
            elements += !a->per_image;
        }
        CHECK_INT(images, mode == 1 ? 9 : 0);
        CHECK_INT(elements, mode == 1);
        graph_destroy(g);
    }
    o.dropout = 0.5;
    Graph *g = NULL;
    CHECK_STATUS(model_build(&g, model_find("mlp"), &o), ERR_USAGE);
    CHECK(g == NULL);
}

TEST(stride_is_in_the_3x3_and_stems_differ)
{
    ModelOptions o = options(3, 224, 1000);
    Graph *g = build("resnet50", &o);
    CHECK(node_shape(g, "conv1")->dims[2] == 112 && node_shape(g, "maxpool")->dims[2] == 56);
    CHECK(node_shape(g, "layer2.0.conv1")->dims[2] == 56 &&
          node_shape(g, "layer2.0.conv2")->dims[2] == 28);
    CHECK(node_shape(g, "layer4.2.bn3")->dims[2] == 7 &&
          node_shape(g, "layer4.2.bn3")->dims[1] == 2048);
    graph_destroy(g);
    o = options(1, 32, 10);
    o.stem = STEM_CIFAR;
    g = build("resnet18", &o);
    CHECK(node_shape(g, "conv1")->dims[2] == 32 && node_shape(g, "layer1.1.bn2")->dims[2] == 32);
    check_tensor(g, "conv1.weight", 4, (const int64_t[]){ 64, 1, 3, 3 });
    graph_destroy(g);
}

/* But for those that read text, and for transformers, whose images divide into patches of the least
 * size. */
TEST(every_network_takes_any_image)
{
    static const int64_t shapes[][2] = { { 1, 28 }, { 3, 32 }, { 4, 33 }, { 3, 1 } };
    for (int i = 0; i < model_count(); i++) {
        if (model_at(i)->text) continue;
        const bool patches = model_at(i)->one_size && model_at(i)->drops;
        for (int s = 0; s < 4; s++) {
            for (int training = 0; training < 2; training++) {
                ModelOptions o = options(shapes[s][0], shapes[s][1], 7);
                o.width = 0.125;
                o.graph.training = training;
                const int least = model_at(i)->least_size;
                if (shapes[s][1] < least || (patches && shapes[s][1] % least != 0)) {
                    Graph *none = NULL;
                    CHECK_STATUS(model_build(&none, model_at(i), &o), ERR_USAGE);
                    CHECK_CONTAINS(status_message(), "data.image_size");
                    continue;
                }
                Graph *g = build(model_at(i)->name, &o);
                CHECK(graph_tensor(g, graph_logits(g))->desc.dims[1] == 7);
                graph_destroy(g);
            }
        }
    }
}

TEST(training_and_evaluation_have_the_same_weights_in_the_same_order)
{
    ModelOptions o = options(3, 32, 10);
    Graph *eval = build("resnet20", &o);
    o.graph.training = true;
    Graph *train = build("resnet20", &o);
    TensorId t = 0;
    int compared = 0;
    for (TensorId e = 0; e < graph_tensor_count(eval); e++) {
        const GraphTensor *a = graph_tensor(eval, e);
        if (a->role != ROLE_PARAM && a->role != ROLE_BUFFER) continue;
        while (graph_tensor(train, t)->role != ROLE_PARAM &&
               graph_tensor(train, t)->role != ROLE_BUFFER)
            t++;
        const GraphTensor *b = graph_tensor(train, t++);
        CHECK(strcmp(a->name, b->name) == 0 && a->role == b->role &&
              tensor_same_shape(&a->desc, &b->desc));
        compared++;
    }
    CHECK(compared == 19 * 5 + 2);
    graph_destroy(eval);
    graph_destroy(train);
}

TEST(batchnorm_mode_follows_the_options)
{
    static const struct {
        bool training, frozen;
        BatchNormMode mode;
    } rows[] = { { true, false, BN_TRAIN },
                 { true, true, BN_FROZEN },
                 { false, false, BN_EVAL },
                 { false, true, BN_EVAL } };
    for (int r = 0; r < 4; r++) {
        ModelOptions o = options(3, 32, 10);
        o.graph.training = rows[r].training;
        o.graph.bn_frozen = rows[r].frozen;
        Graph *g = build("resnet20", &o);
        int seen = 0;
        for (int i = 0; i < graph_node_count(g); i++) {
            if (graph_node(g, i)->kind != OP_BATCHNORM) continue;
            const BatchNormAttr *attr = graph_node(g, i)->attr;
            CHECK(attr->mode == rows[r].mode);
            CHECK_NEAR((double)attr->eps, 1e-5, 1e-11);
            CHECK_NEAR((double)attr->momentum, 0.1, 1e-7);
            seen++;
        }
        CHECK(seen == 19);
        graph_destroy(g);
    }
}

static float *init_by_name(const Graph *g, const char *name, uint64_t seed, int64_t *count)
{
    const TensorId id = graph_find(g, name);
    CHECK(id != TENSOR_NONE);
    *count = tensor_elements(&graph_tensor(g, id)->desc);
    float *values = mem_calloc((size_t)*count, sizeof *values);
    CHECK_STATUS(model_init_tensor(g, id, seed, values), OK);
    return values;
}

static void check_all_equal(const Graph *g, const char *name, double want)
{
    int64_t count = 0;
    float *values = init_by_name(g, name, 1, &count);
    CHECK(count > 0);
    for (int64_t i = 0; i < count; i++) CHECK((double)values[i] == want);
    mem_free(values);
}

TEST(convolutions_start_he_normal)
{
    const ModelOptions o = options(3, 32, 10);
    Graph *g = build("resnet18", &o);
    int64_t count = 0;
    float *w = init_by_name(g, "layer3.0.conv2.weight", 3, &count);
    double sum = 0, squares = 0;
    int beyond = 0;
    const double deviation = sqrt(2.0 / (256 * 9));
    for (int64_t i = 0; i < count; i++) {
        sum += (double)w[i];
        squares += (double)w[i] * (double)w[i];
        beyond += fabs((double)w[i]) > 2 * deviation;
    }
    CHECK(count == 256 * 256 * 9);
    CHECK_NEAR(sum / (double)count, 0, 5 * deviation / sqrt((double)count));
    CHECK_NEAR(sqrt(squares / (double)count), deviation, 0.005 * deviation);
    /* a normal, not a uniform distribution */
    CHECK_NEAR((double)beyond / (double)count, 0.0455, 0.002);
    mem_free(w);
    graph_destroy(g);
}

TEST(linear_layers_start_uniform)
{
    const ModelOptions o = options(1, 28, 10);
    Graph *g = build("mlp", &o);
    static const char *const names[] = { "fc1.weight", "fc1.bias" };
    const double bound = 1 / 28.0; /* 1 / sqrt(784) */
    for (int k = 0; k < 2; k++) {
        int64_t count = 0;
        float *w = init_by_name(g, names[k], 3, &count);
        double squares = 0;
        for (int64_t i = 0; i < count; i++) {
            CHECK(fabs((double)w[i]) <= bound * (1 + 1e-6));
            squares += (double)w[i] * (double)w[i];
        }
        CHECK_NEAR(sqrt(squares / (double)count), bound / sqrt(3.0), (k ? 0.1 : 0.01) * bound);
        mem_free(w);
    }
    graph_destroy(g);
}

/* Of squeeze and excitation: 256 channels to 16 and back. */
TEST(biases_of_excitation_start_uniform)
{
    const ModelOptions o = options(1, 32, 10);
    Graph *g = build("seresnet50", &o);
    static const struct {
        const char *name;
        int fan;
    } rows[] = { { "layer1.0.se.fc1.bias", 256 }, { "layer1.0.se.fc2.bias", 16 } };
    for (int k = 0; k < 2; k++) {
        int64_t count = 0;
        double squares = 0;
        float *w = init_by_name(g, rows[k].name, 3, &count);
        for (int64_t i = 0; i < count; i++) {
            CHECK(fabs((double)w[i]) <= (1 + 1e-6) / sqrt(rows[k].fan));
            squares += (double)w[i] * (double)w[i];
        }
        CHECK(sqrt(squares / (double)count) > 0.3 / sqrt(rows[k].fan));
        mem_free(w);
    }
    graph_destroy(g);
}

TEST(batchnorm_starts_as_the_identity)
{
    ModelOptions o = options(3, 32, 10);
    Graph *g = build("resnet50", &o);
    check_all_equal(g, "layer1.0.bn3.weight", 1);
    check_all_equal(g, "layer1.0.bn3.bias", 0);
    check_all_equal(g, "layer1.0.bn3.running_mean", 0);
    check_all_equal(g, "layer1.0.bn3.running_var", 1);
    graph_destroy(g);
    o.zero_init_last_gamma = true;
    g = build("resnet50", &o);
    check_all_equal(g, "layer1.0.bn3.weight", 0);
    check_all_equal(g, "layer1.0.bn2.weight", 1);
    check_all_equal(g, "layer1.0.downsample.1.weight", 1);
    graph_destroy(g);
    g = build("resnet20", &o);
    check_all_equal(g, "layer2.1.bn2.weight", 0);
    check_all_equal(g, "layer2.1.bn1.weight", 1);
    graph_destroy(g);
}

TEST(draws_are_addressed_by_seed_and_tensor)
{
    const ModelOptions o = options(3, 32, 10);
    Graph *g = build("resnet20", &o);
    int64_t n = 0, m = 0;
    float *a = init_by_name(g, "layer1.0.conv1.weight", 7, &n),
          *again = init_by_name(g, "layer1.0.conv1.weight", 7, &m);
    float *seed = init_by_name(g, "layer1.0.conv1.weight", 8, &m),
          *other = init_by_name(g, "layer1.0.conv2.weight", 7, &m);
    CHECK(n == m && n == 16 * 16 * 9);
    CHECK(memcmp(a, again, (size_t)n * sizeof *a) == 0);
    CHECK(memcmp(a, seed, (size_t)n * sizeof *a) != 0);
    CHECK(memcmp(a, other, (size_t)n * sizeof *a) != 0);
    mem_free(a);
    mem_free(again);
    mem_free(seed);
    mem_free(other);
    CHECK_STATUS(model_init_tensor(g, graph_input(g, "images"), 7, NULL), ERR_INTERNAL);
    graph_destroy(g);
}

TEST(impossible_options_are_user_errors)
{
    ModelOptions good = options(3, 32, 10);
    Graph *g = NULL;
    ModelOptions bad[5] = { good, good, good, good, good };
    bad[0].graph.batch = 0;
    bad[1].graph.classes = 0;
    bad[2].graph.height = 0;
    bad[3].graph.channels = OP_MAX_IMAGE_CHANNELS + 1;
    bad[4].width = 0;
    for (int i = 0; i < 5; i++) {
        CHECK_STATUS(model_build(&g, model_find("resnet20"), &bad[i]), ERR_USAGE);
        CHECK(g == NULL);
    }
}

TEST(width_is_rounded_to_eights)
{
    CHECK(block_scale_channels(64, 1) == 64 && block_scale_channels(64, 0.125) == 8);
    CHECK(block_scale_channels(64, 0.01) == 8 && block_scale_channels(512, 0.25) == 128 &&
          block_scale_channels(64, 1.3) == 80);
}

/* Where sets of a network, or of a family, differ; scripts/bench/check_export.py holds all of
 * torchvision's against its own tables. */
TEST(airbench94_starts_as_torch_and_as_the_identity)
{
    const ModelOptions o = options(3, 32, 10);
    Graph *g = build("airbench94", &o);
    int64_t count = 0;
    float *w = init_by_name(g, "layer2.conv1.weight", 3, &count);
    double squares = 0;
    CHECK_INT(count, 256 * 64 * 9);
    for (int64_t i = 0; i < 64 * 64 * 9; i++) /* filter k hands channel k on */
        CHECK((double)w[i] == (i / 9 / 64 == i / 9 % 64 && i % 9 == 4 ? 1 : 0));
    for (int64_t i = 64 * 64 * 9; i < count; i++) {
        CHECK(fabs((double)w[i]) <= 1.0 / 24);
        squares += (double)w[i] * (double)w[i];
    }
    CHECK_NEAR(sqrt(squares / (192.0 * 64 * 9)), 1 / 24.0 / sqrt(3), 1e-4);
    mem_free(w);
    w = init_by_name(g, "layer3.conv2.weight", 3, &count); /* as many filters as channels */
    for (int64_t i = 0; i < count; i++)
        CHECK((double)w[i] == (i / 9 / 256 == i / 9 % 256 && i % 9 == 4 ? 1 : 0));
    mem_free(w);
    check_all_equal(g, "layer1.norm2.weight", 1);
    check_all_equal(g, "layer1.norm2.bias", 0);
    int frozen = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        if (t->role != ROLE_PARAM || !t->frozen) continue;
        CHECK(strcmp(t->name, "whiten.weight") == 0 || strstr(t->name, "norm") ||
              strcmp(t->name, "whiten_bias.weight") == 0);
        CHECK(!strstr(t->name, ".bias"));
        frozen++;
    }
    CHECK_INT(frozen, 8);
    CHECK(graph_find(g, "fc.bias") == TENSOR_NONE);
    graph_destroy(g);
}
