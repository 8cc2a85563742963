// A model and data of your own, trained by shoal_train: a small network learns which of two spirals
// a point lies on. Under `shoal run -n 3 -- ./spiral` the same binary runs on 3 ranks.
#include <math.h>
#include <shoal/shoal.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 500, HELD_OUT = 100, BATCH = 64 };

// Called for each phase, and once more for the rows of a short last batch.
static void build(void *self, shoal_graph_t *g, const char *phase, int64_t rows) {
  (void)self;
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(rows, 2));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(rows));
  shoal_value_t h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, 32));
  h = shoal_tanh(g, shoal_nn_linear(g, "fc2", h, 32));
  shoal_value_t logits = shoal_nn_linear(g, "fc3", h, 2);
  shoal_value_t loss = shoal_nn_cross_entropy(g, logits, y);
  if (strcmp(phase, "train") == 0) {
    shoal_optimize(g, loss, &(shoal_recipe_t){.lr = 1e-2, .training = {.clip_norm = 1}});
  } else {
    shoal_output(g, "logits", logits);  // evaluation on held-out data gives the accuracy then
  }
  shoal_output(g, "loss", loss);
}

// A sample depends on its index alone, so any rank can read any of them.
static shoal_status_t read_point(void *self, const shoal_sample_t *sample, void *const *out) {
  (void)self;
  const int32_t y = (int32_t)(sample->index % 2);
  const double at = (double)(sample->index * 37 % POINTS) / POINTS;
  const double angle = 6 * at + (y ? 3.14159265 : 0);
  const float x[2] = {(float)(at * cos(angle)), (float)(at * sin(angle))};
  if (out[0]) memcpy(out[0], x, sizeof x);
  if (out[1]) memcpy(out[1], &y, sizeof y);
  return NULL;
}

static void print_line(void *self, bool progress, const char *line) {
  (void)self, (void)progress;
  puts(line);
}

int main(void) {
  const shoal_column_t columns[] = {{.name = "x", .dtype = SHOAL_F32, .shape = {1, {2}}},
                                    {.name = "y", .dtype = SHOAL_I32, .classes = 2}};
  const shoal_dataset_ops_t ops = {.read = read_point};
  shoal_dataset_t *all = NULL, *data = NULL, *held_out = NULL;
  shoal_train_report_t report = {0};
  shoal_status_t status = shoal_dataset_create("spirals", POINTS, columns, 2, &ops, NULL,
                                               shoal_allocator_system(), &all);
  if (!status) status = shoal_dataset_split(all, HELD_OUT, &data, &held_out);
  if (!status)
    status = shoal_train(&(shoal_train_options_t){.build = build,
                                                  .batch = BATCH,
                                                  .seed = 1,
                                                  .data = data,
                                                  .eval_data = held_out,
                                                  .last_batch = SHOAL_LAST_SHORT,
                                                  .epochs = 60,
                                                  .eval_every = 140,
                                                  .log_every = 140,
                                                  .log = print_line},
                         &report);
  shoal_status_print(status, stderr);
  int code = shoal_code_exit(shoal_status_code(status));
  if (!status && report.metrics[1].value < 0.9) code = 1;  // metrics: loss, accuracy
  shoal_status_free(status);
  shoal_dataset_free(all);
  shoal_dataset_free(data);
  shoal_dataset_free(held_out);
  return code;
}
