// A model of your own, checked before it is trained: on three ranks, cut by rows and cut by
// columns, it must compute what it computes on one device. 10 rows and 7 features do not divide by
// three.
#include <shoal/shoal.h>
#include <stdio.h>

enum { BATCH = 10, FEATURES = 7, HIDDEN = 11 };

static void train(shoal_graph_t *g) {
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(BATCH, FEATURES));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(BATCH));
  shoal_value_t h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, HIDDEN));
  shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc2", h, 3), y);
  shoal_adamw_t adamw = {.lr = 1e-2, .eps = 1e-3};
  shoal_minimize(g, loss, &adamw);
  shoal_output(g, "loss", loss);
}

int main(void) {
  static float xs[BATCH][FEATURES];
  for (int i = 0; i < BATCH; ++i)
    for (int j = 0; j < FEATURES; ++j) xs[i][j] = (float)((i * 31 + j * 17) % 23) / 23;
  const shoal_check_feed_t feeds[] = {
      {.name = "x", .data = xs, .size = sizeof xs},  // your data;
      {.name = "y", .limit = 3},                     // or random labels, 0 to 2
  };
  const shoal_check_how_t how = {.ranks = 3, .steps = 3, .feed_count = 2, .feeds = feeds};
  const char *strategies[] = {"data", "tensor"};
  shoal_model_t *model = NULL;
  shoal_status_t status = NULL;
  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(NULL, &model));
  train(shoal_model_graph(model, "train"));
  for (int i = 0; i < 2; ++i) {
    const shoal_parallelize_options_t options = {.strategy =
                                                     strategies[i]};  // as for shoal_parallelize
    shoal_check_report_t report;
    SHOAL_GOTO_IF_ERROR(status, done, shoal_check(model, &options, &how, &report));
    printf("%s on 3 ranks: %lld values agree; the worst, %s, has %.2f of the error allowed\n",
           strategies[i], (long long)report.values, report.worst_value, report.worst);
  }
done:
  // Names the first value that differs: where, what it is and what it should be.
  shoal_status_print(status, stderr);
  int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  shoal_model_free(model);
  return code;
}
