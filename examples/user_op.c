// A program outside the tree that brings its own op and its own strategy. The op gets a rule, a
// gradient path, a plan and a program like a native one; the strategy can be combined with native
// ones.
//
//   user_op                        all ranks on the strategy's axis
//   user_op data=2,hidden=2        the same beside data parallelism, on 4 ranks
//
//   user.swish: y = x * sigmoid(beta x), element by element.
#include <math.h>
#include <shoal/shoal.h>
#include <stdio.h>
#include <string.h>

// ---- the op -------------------------------------------------------------------------------------

static const char *const swish_inputs[] = {"x"};
static const char *const swish_grad_inputs[] = {"x", "dy"};
static const char *const swish_outputs[] = {"out"};
static const shoal_attr_schema_t swish_attrs[] = {
    {.name = "beta", .kind = SHOAL_ATTR_REAL, .optional = true, .fallback = {.f = 1.0}}};

static const shoal_overwrite_t swish_overwrites[] = {{0, 0}};  // y may lie where x lies

static shoal_status_t infer_like_first(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  if (call->inputs[0].dtype == SHOAL_F32 || call->inputs[0].dtype == SHOAL_F64) return NULL;
  return shoal_status_create(SHOAL_INVALID_ARGUMENT, __FILE__, __LINE__,
                             "user.swish takes f32 or f64", NULL);
}

// Value (order 0) or derivative (order 1) of swish.
static double swish(double x, double beta, int order) {
  double s = 1 / (1 + exp(-beta * x));
  return order == 0 ? x * s : s + beta * x * s * (1 - s);
}

static shoal_status_t each(const shoal_call_t *call, const shoal_tensor_t *inputs,
                           const shoal_tensor_t *outputs, int order) {
  int64_t count = shoal_shape_count(&inputs[0].shape);
  double beta = call->attrs[0].f;
  for (int64_t i = 0; i < count; ++i) {
    if (inputs[0].dtype == SHOAL_F64) {
      double dy = order ? ((const double *)inputs[1].data)[i] : 1;
      ((double *)outputs[0].data)[i] = dy * swish(((const double *)inputs[0].data)[i], beta, order);
    } else {
      double dy = order ? (double)((const float *)inputs[1].data)[i] : 1;
      ((float *)outputs[0].data)[i] =
          (float)(dy * swish((double)((const float *)inputs[0].data)[i], beta, order));
    }
  }
  return NULL;
}

static shoal_status_t swish_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                   const shoal_tensor_t *outputs, void *workspace) {
  (void)workspace;
  return each(call, inputs, outputs, 0);
}

static shoal_status_t swish_grad_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                        const shoal_tensor_t *outputs, void *workspace) {
  (void)workspace;
  return each(call, inputs, outputs, 1);
}

static void swish_gradient(const shoal_call_t *call, shoal_emitter_t *emitter,
                           const shoal_ref_t *inputs, const shoal_ref_t *outputs,
                           const shoal_ref_t *output_grads, shoal_ref_t *out_input_grads) {
  (void)outputs;
  shoal_ref_t operands[2] = {inputs[0], output_grads[0]};
  shoal_attr_t beta = shoal_attr_real("beta", call->attrs[0].f);
  shoal_emit(emitter, "user.swish_grad", 2, operands, 1, &beta, 1, out_input_grads);
}

static shoal_status_t register_ops(shoal_registry_t *registry) {
  shoal_op_t op = {.name = "user.swish",
                   .doc = "y = x * sigmoid(beta x)",
                   .input_count = 1,
                   .inputs = swish_inputs,
                   .output_count = 1,
                   .outputs = swish_outputs,
                   .attr_count = 1,
                   .attrs = swish_attrs,
                   .infer = infer_like_first,
                   .gradient = swish_gradient,
                   .overwrite_count = 1,
                   .overwrites = swish_overwrites,
                   .kernel = swish_kernel};
  SHOAL_RETURN_IF_ERROR(shoal_op_register(registry, &op));
  shoal_op_t grad = {.name = "user.swish_grad",
                     .doc = "dx of user.swish",
                     .input_count = 2,
                     .inputs = swish_grad_inputs,
                     .output_count = 1,
                     .outputs = swish_outputs,
                     .attr_count = 1,
                     .attrs = swish_attrs,
                     .infer = infer_like_first,
                     .kernel = swish_grad_kernel};
  return shoal_op_register(registry, &grad);
}

// ---- the strategy -------------------------------------------------------------------------------

// Cuts the hidden layer over the mesh's axis "hidden": fc1 by columns, fc2 by rows. Other axes are
// other strategies' business, whose cuts stay.
static shoal_status_t hidden_strategy(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  SHOAL_RETURN_IF_ERROR(shoal_context_cut(context, "fc1/weight", "hidden:1"));
  SHOAL_RETURN_IF_ERROR(shoal_context_cut(context, "fc1/bias", "hidden:0"));
  return shoal_context_cut(context, "fc2/weight", "hidden:0");
}

// ---- the program --------------------------------------------------------------------------------

static void train(shoal_graph_t *g) {
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(6, 5));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(6));
  shoal_value_t h = shoal_nn_linear(g, "fc1", x, 7);
  shoal_attr_t beta = shoal_attr_real("beta", 1.5);
  shoal_node_add(g, "user.swish", 1, &h, 1, &beta, 1, &h);
  shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc2", h, 3), y);
  shoal_adamw_t adamw = {.lr = 1e-2};
  shoal_minimize(g, loss, &adamw);
  shoal_output(g, "loss", loss);
}

int main(int argc, char **argv) {
  shoal_registry_t *registry = NULL;
  shoal_strategies_t *strategies = NULL;
  shoal_model_t *model = NULL;
  shoal_session_t *s = NULL;
  shoal_status_t status = NULL;
  float xs[6][5], loss = 0, first = 0;
  int32_t ys[6];
  shoal_strategy_t mine = {
      .name = "hidden", .doc = "cuts the hidden layer", .plan = hidden_strategy, .axes = "hidden"};
  for (int i = 0; i < 6; ++i) {
    ys[i] = i % 3;
    for (int j = 0; j < 5; ++j) xs[i][j] = (float)((i * 5 + j) % 7) / 7;
  }
  SHOAL_GOTO_IF_ERROR(status, done, shoal_registry_create(shoal_allocator_system(), &registry));
  SHOAL_GOTO_IF_ERROR(status, done, register_ops(registry));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_strategies_create(shoal_allocator_system(), &strategies));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_strategy_register(strategies, &mine));
  shoal_model_options_t model_options = {.registry = registry, .seed = 3};
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(&model_options, &model));
  train(shoal_model_graph(model, "train"));
  shoal_parallelize_options_t options = {
      .strategy = "hidden", .strategies = strategies, .mesh = argc > 1 ? argv[1] : NULL};
  SHOAL_GOTO_IF_ERROR(status, done, shoal_parallelize(model, &options, &s));
  for (int step = 1; step <= 40; ++step) {
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "x", xs, sizeof xs));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "y", ys, sizeof ys));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_run(s, "train"));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_fetch(s, "loss", &loss, sizeof loss));
    if (step == 1) first = loss;
  }
  if (shoal_world_rank(shoal_session_world(s)) == 0)
    printf("loss %.6f -> %.6f\n", (double)first, (double)loss);
done:
  shoal_status_print(status, stderr);
  int code = status ? shoal_code_exit(shoal_status_code(status)) : loss < first ? 0 : 1;
  shoal_status_free(status);
  shoal_session_free(s);
  shoal_model_free(model);
  shoal_strategies_free(strategies);
  shoal_registry_release(registry);
  return code;
}
