// The layers of DistDL (Hewett and Grady 2020), each as an ordinary layer with layouts: for every
// row of the table a model of that layer alone is planned as the layouts say and checked, forward
// and all gradients, to compute on several ranks what it computes on one device. Sizes do not
// divide. A name of a layer selects those it begins with:
//
//   ./distributed_layers            ./distributed_layers conv
//
// A layout says which dim is cut over which axis of the mesh ("out:1"); what is not named follows,
// or is replicated. "*3/2": each of 3 chunks is cut on its own, between units of 2.
#include <shoal/ops.h>
#include <shoal/shoal.h>
#include <stdio.h>
#include <string.h>

typedef shoal_value_t build_fn_t(shoal_graph_t *g);  // reads the input "x", returns the result

typedef struct layer {
  const char *name;
  build_fn_t *build;
  int32_t ranks;
  const char *mesh;
  shoal_intent_entry_t layouts[5];
} layer_t;

// With a state added to it, so that the gradient by x is computed and compared, too.
static shoal_value_t input(shoal_graph_t *g, shoal_shape_t shape) {
  const shoal_state_options_t zeros = {.trainable = true};
  return shoal_add(g, shoal_input(g, "x", SHOAL_F64, shape),
                   shoal_state(g, "offset", SHOAL_F64, shape, &zeros));
}

// ---- the layers ------------------------------------------------------------------------

static shoal_value_t linear(shoal_graph_t *g) {
  return shoal_nn_linear(g, "fc", input(g, SHOAL_SHAPE(5, 7)), 9);
}

static shoal_value_t line(shoal_graph_t *g) {
  const shoal_nn_conv_options_t options = {.stride = 2, .padding = 2};
  return shoal_nn_conv(g, "conv", input(g, SHOAL_SHAPE(2, 3, 17)), 5, 5, &options);
}

static shoal_value_t picture(shoal_graph_t *g) {
  return shoal_nn_conv2d(g, "conv", input(g, SHOAL_SHAPE(3, 5, 11, 5)), 7, 3, 1, 1);
}

static shoal_value_t volume(shoal_graph_t *g) {
  return shoal_nn_conv3d(g, "conv", input(g, SHOAL_SHAPE(1, 1, 7, 5, 6)), 2, 3, 1, 1);
}

static shoal_value_t volumes(shoal_graph_t *g) {
  return shoal_nn_conv3d(g, "conv", input(g, SHOAL_SHAPE(3, 3, 5, 4, 3)), 5, 3, 1, 1);
}

static shoal_value_t transposed(shoal_graph_t *g) {
  const shoal_nn_conv_options_t options = {.stride = 2, .padding = 1};
  return shoal_nn_conv_transpose(g, "conv", input(g, SHOAL_SHAPE(2, 5, 7)), 3, 4, &options);
}

static shoal_value_t transposed_picture(shoal_graph_t *g) {
  const shoal_nn_conv_options_t options = {.stride = 2, .padding = 1};
  return shoal_nn_conv_transpose(g, "conv", input(g, SHOAL_SHAPE(3, 3, 5, 4)), 5, 4, &options);
}

static shoal_value_t batch_norm(shoal_graph_t *g) {
  return shoal_nn_batch_norm(g, "norm", input(g, SHOAL_SHAPE(5, 3, 7, 4)), NULL);
}

static shoal_value_t group_norm(shoal_graph_t *g) {
  return shoal_nn_group_norm(g, "norm", input(g, SHOAL_SHAPE(3, 6, 7, 4)), 3, NULL);
}

static shoal_value_t layer_norm(shoal_graph_t *g) {
  return shoal_nn_layer_norm(g, "norm", input(g, SHOAL_SHAPE(5, 11)));
}

static shoal_value_t rms_norm(shoal_graph_t *g) {
  return shoal_nn_rms_norm(g, "norm", input(g, SHOAL_SHAPE(5, 11)));
}

// Windows overlap by one row; rows of the border count only what is there.
static shoal_value_t max_pool(shoal_graph_t *g) {
  return shoal_max_pool(g, input(g, SHOAL_SHAPE(2, 3, 13, 7)), SHOAL_SHAPE(3, 3), SHOAL_SHAPE(2, 2),
                        SHOAL_SHAPE(1, 1));
}

static shoal_value_t average_pool(shoal_graph_t *g) {
  return shoal_avg_pool(g, input(g, SHOAL_SHAPE(2, 3, 13, 7)), SHOAL_SHAPE(2, 2), SHOAL_SHAPE(2, 2),
                        SHOAL_SHAPE(0, 0), 0);
}

static shoal_value_t upsample(shoal_graph_t *g) {
  const shoal_resize_options_t options = {.mode = "linear"};
  return shoal_resize_with(g, input(g, SHOAL_SHAPE(2, 3, 7, 5)), SHOAL_SHAPE(2, 3, 14, 10),
                           &options);
}

static shoal_value_t embedding(shoal_graph_t *g) {
  shoal_value_t ids = shoal_input(g, "ids", SHOAL_I32, SHOAL_SHAPE(5, 3));
  return shoal_nn_embedding(g, "table", ids, 11, 7, SHOAL_F64);
}

// Logits of 11 classes, cut by classes: nobody has a whole row.
static shoal_value_t cross_entropy(shoal_graph_t *g) {
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(5));
  return shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc", input(g, SHOAL_SHAPE(5, 7)), 11), y);
}

static shoal_value_t mean_square(shoal_graph_t *g) {
  shoal_value_t y = shoal_input(g, "y", SHOAL_F64, SHOAL_SHAPE(5, 9));
  return shoal_nn_mse_loss(g, linear(g), y, NULL);
}

static shoal_value_t target(shoal_graph_t *g) {
  return shoal_input(g, "y", SHOAL_F64, SHOAL_SHAPE(5, 9));
}

static shoal_value_t absolute_error(shoal_graph_t *g) {
  return shoal_nn_l1_loss(g, linear(g), target(g), NULL);
}

static shoal_value_t binary(shoal_graph_t *g) {
  return shoal_nn_bce_with_logits_loss(g, linear(g), shoal_sigmoid(g, target(g)), NULL);
}

static shoal_value_t divergence(shoal_graph_t *g) {
  return shoal_nn_kl_div_loss(g, linear(g), shoal_sigmoid(g, target(g)), NULL);
}

static shoal_value_t poisson(shoal_graph_t *g) {
  return shoal_nn_poisson_nll_loss(g, linear(g), target(g), NULL);
}

// 5 experts, each with a weight of its own for its rows.
static shoal_value_t experts(shoal_graph_t *g) {
  const shoal_state_options_t normal = {.init = {SHOAL_INIT_NORMAL, 0, 0.1}, .trainable = true};
  shoal_value_t w = shoal_state(g, "experts/weight", SHOAL_F64, SHOAL_SHAPE(5, 4, 6), &normal);
  return shoal_matmul(g, input(g, SHOAL_SHAPE(5, 3, 4)), w);
}

// Queries, keys and values from one weight, whose three parts are cut alike, between heads of 2.
static shoal_value_t attention(shoal_graph_t *g) {
  return shoal_nn_self_attention(g, "attn", input(g, SHOAL_SHAPE(2, 5, 10)), 5);
}

// ---- their layouts ---------------------------------------------------------------------

static const layer_t LAYERS[] = {
    {"linear, columns", linear, 3, "out=3", {{"fc/weight", "out:1"}, {"fc/bias", "out:0"}}},
    {"linear, rows", linear, 3, "in=3", {{"x", "in:1"}, {"fc/weight", "in:0"}}},
    {"linear, general",
     linear,
     6,
     "in=2,out=3",
     {{"x", "in:1"}, {"fc/weight", "in:0,out:1"}, {"fc/bias", "out:0"}}},
    {"linear, rows of the batch and flat weights",
     linear,
     4,
     "data=4",
     {{"x", "data:0"}, {"fc/*", "data:flat"}}},
    {"conv 1d, feature", line, 4, "space=4", {{"x", "space:2"}}},
    {"conv 1d, channels",
     line,
     4,
     "in=2,out=2",
     {{"x", "in:1"}, {"conv/weight", "out:0,in:1"}, {"conv/bias", "out:0"}}},
    {"conv 1d, general",
     line,
     8,
     "data=2,out=2,space=2",
     {{"x", "data:0,space:2"}, {"conv/*", "out:0"}}},
    {"conv 2d, feature", picture, 6, "height=3,width=2", {{"x", "height:2,width:3"}}},
    {"conv 2d, output channels", picture, 3, "out=3", {{"conv/*", "out:0"}}},
    {"conv 2d, input channels", picture, 3, "in=3", {{"x", "in:1"}, {"conv/weight", "in:1"}}},
    {"conv 2d, general",
     picture,
     8,
     "data=2,in=2,height=2",
     {{"x", "data:0,in:1,height:2"}, {"conv/weight", "in:1"}}},
    {"conv 3d, feature", volume, 4, "depth=2,width=2", {{"x", "depth:2,width:4"}}},
    {"conv 3d, channels",
     volumes,
     4,
     "in=2,out=2",
     {{"x", "in:1"}, {"conv/weight", "out:0,in:1"}, {"conv/bias", "out:0"}}},
    {"conv 3d, general",
     volumes,
     8,
     "data=2,in=2,depth=2",
     {{"x", "data:0,in:1,depth:2"}, {"conv/weight", "in:1"}}},
    {"conv transposed, feature", transposed, 3, "space=3", {{"x", "space:2"}}},
    {"conv transposed, channels",
     transposed,
     4,
     "in=2,out=2",
     {{"x", "in:1"}, {"conv/weight", "in:0,out:1"}, {"conv/bias", "out:0"}}},
    {"conv transposed, general",
     transposed_picture,
     8,
     "data=2,in=2,height=2",
     {{"x", "data:0,in:1,height:2"}, {"conv/weight", "in:0"}}},
    {"norm, batch", batch_norm, 4, "data=2,height=2", {{"x", "data:0,height:2"}}},
    {"norm, batch, by channels",
     batch_norm,
     2,
     "channel=2",
     {{"x", "channel:1"}, {"norm/*", "channel:0"}}},
    {"norm, group", group_norm, 3, "height=3", {{"x", "height:2"}}},
    {"norm, layer", layer_norm, 3, "width=3", {{"x", "width:1"}, {"norm/*", "width:0"}}},
    {"norm, rms", rms_norm, 3, "width=3", {{"x", "width:1"}, {"norm/*", "width:0"}}},
    {"pool, max", max_pool, 4, "height=2,width=2", {{"x", "height:2,width:3"}}},
    {"pool, average", average_pool, 3, "height=3", {{"x", "height:2"}}},
    {"upsample", upsample, 4, "height=2,width=2", {{"x", "height:2,width:3"}}},
    {"embedding, vocabulary", embedding, 3, "tensor=3", {{"table/table", "tensor:0"}}},
    {"embedding, width",
     embedding,
     4,
     "data=2,tensor=2",
     {{"ids", "data:0"}, {"table/table", "tensor:1"}}},
    {"loss, cross-entropy by classes",
     cross_entropy,
     3,
     "tensor=3",
     {{"fc/weight", "tensor:1"}, {"fc/bias", "tensor:0"}}},
    {"loss, mean square",
     mean_square,
     4,
     "data=2,out=2",
     {{"x", "data:0"}, {"y", "data:0,out:1"}, {"fc/weight", "out:1"}, {"fc/bias", "out:0"}}},
    {"loss, absolute error",
     absolute_error,
     4,
     "data=2,out=2",
     {{"x", "data:0"}, {"y", "data:0,out:1"}, {"fc/weight", "out:1"}, {"fc/bias", "out:0"}}},
    {"loss, binary cross-entropy",
     binary,
     4,
     "data=2,out=2",
     {{"x", "data:0"}, {"y", "data:0,out:1"}, {"fc/weight", "out:1"}, {"fc/bias", "out:0"}}},
    {"loss, Kullback-Leibler",
     divergence,
     4,
     "data=2,out=2",
     {{"x", "data:0"}, {"y", "data:0,out:1"}, {"fc/weight", "out:1"}, {"fc/bias", "out:0"}}},
    {"loss, Poisson",
     poisson,
     4,
     "data=2,out=2",
     {{"x", "data:0"}, {"y", "data:0,out:1"}, {"fc/weight", "out:1"}, {"fc/bias", "out:0"}}},
    {"experts",
     experts,
     4,
     "expert=2,tensor=2",
     {{"x", "expert:0"}, {"experts/weight", "expert:0,tensor:2"}}},
    {"attention",
     attention,
     2,
     "tensor=2",
     {{"attn/qkv/weight", "tensor:1*3/2"},
      {"attn/qkv/bias", "tensor:0*3/2"},
      {"attn/proj/weight", "tensor:0/2"}}},
};

static shoal_status_t check(const layer_t *layer) {
  shoal_model_t *model = NULL;
  shoal_check_report_t report;
  SHOAL_RETURN_IF_ERROR(shoal_model_create(NULL, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t y = layer->build(g);
  // Each element of the result has another share in the loss, so that gradients differ.
  if (shoal_value_type(y).shape.rank > 0)
    y = shoal_nn_mse_loss(g, y, shoal_input(g, "target", SHOAL_F64, shoal_value_type(y).shape),
                          NULL);
  shoal_minimize(g, y, &(shoal_adamw_t){.eps = 1e-3});
  shoal_output(g, "loss", y);
  int64_t count = 0;
  while (count < 5 && layer->layouts[count].pattern) ++count;
  const shoal_parallelize_options_t options = {.strategy = "explicit",
                                               .mesh = layer->mesh,
                                               .layout_count = count,
                                               .layouts = layer->layouts};
  shoal_status_t status = shoal_check(
      model, &options, &(shoal_check_how_t){.ranks = layer->ranks, .steps = 1}, &report);
  if (!status)
    printf("%-44s %-20s %lld values agree\n", layer->name, layer->mesh, (long long)report.values);
  shoal_model_free(model);
  return status ? shoal_status_annotate(status, layer->name) : NULL;
}

int main(int argc, char **argv) {
  const char *wanted = argc > 1 ? argv[1] : "";
  shoal_status_t status = NULL;
  for (size_t i = 0; i < sizeof LAYERS / sizeof *LAYERS && !status; ++i)
    if (strncmp(LAYERS[i].name, wanted, strlen(wanted)) == 0) status = check(&LAYERS[i]);
  shoal_status_print(status, stderr);
  const int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  return code;
}
