// Data of your own: a data set made of callbacks feeds a session, batch by batch.
//
// The task: which of two interleaved spirals does a point lie on? Points are made by a callback, as
// they would be read from your files; a fifth of them is held out for validation. A loader shuffles
// and reads ahead on a thread. The last batch of an epoch is short, and the model has a graph of
// that many rows for it.
//
// Alone it runs on one device; under `shoal run -n 2 -- ./own_data` it runs on 2 ranks.
#include <math.h>
#include <shoal/shoal.h>
#include <stdio.h>

enum { POINTS = 1000, HELD_OUT = POINTS / 5, BATCH = 96, WIDTH = 32, EPOCHS = 30 };
enum { LAST = (POINTS - HELD_OUT) % BATCH };  // rows of the short batch of an epoch

// ---- the data set ---------------------------------------------------------------------

// A sample depends on its index alone, so that a run can be resumed anywhere.
static shoal_status_t read_point(void *self, const shoal_sample_t *sample, void *const *columns) {
  (void)self;
  const int64_t spiral = sample->index % 2;
  const double along = (double)sample->index / POINTS;
  const double angle = 6 * along + 3.14159265 * (double)spiral;
  float *x = columns[0];  // NULL: not wanted
  if (x) x[0] = (float)(2 * along * cos(angle)), x[1] = (float)(2 * along * sin(angle));
  int32_t *y = columns[1];
  if (y) *y = (int32_t)spiral;
  return NULL;
}

static shoal_status_t open_points(shoal_dataset_t **out_dataset) {
  const shoal_column_t columns[] = {
      {.name = "x", .dtype = SHOAL_F32, .shape = SHOAL_SHAPE(2)},
      {.name = "y", .dtype = SHOAL_I32, .shape = SHOAL_SCALAR, .classes = 2}};
  const shoal_dataset_ops_t ops = {.read = read_point};
  return shoal_dataset_create("spirals", POINTS, columns, 2, &ops, NULL, shoal_allocator_system(),
                              out_dataset);
}

// ---- the model ------------------------------------------------------------------------

static void build(shoal_graph_t *g, int64_t rows, bool learns) {
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(rows, 2));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(rows));
  shoal_value_t h = shoal_tanh(g, shoal_nn_linear(g, "fc1", x, WIDTH));
  h = shoal_tanh(g, shoal_nn_linear(g, "fc2", h, WIDTH));
  shoal_value_t logits = shoal_nn_linear(g, "fc3", h, 2);
  shoal_value_t loss = shoal_nn_cross_entropy(g, logits, y);
  shoal_adamw_t adamw = {.lr = 1e-2};
  if (learns) shoal_minimize(g, loss, &adamw);
  shoal_output(g, "loss", loss);
  if (!learns) shoal_output(g, "logits", logits);
}

// ---- feeding --------------------------------------------------------------------------

static shoal_status_t feed(shoal_session_t *s, const shoal_batch_t *batch) {
  for (int32_t i = 0; i < batch->column_count; ++i) {
    const shoal_batch_column_t *column = &batch->columns[i];
    SHOAL_RETURN_IF_ERROR(shoal_feed(s, column->name, column->data, (size_t)column->bytes));
  }
  return NULL;
}

// Trains until the loader's epochs are over.
static shoal_status_t train(shoal_session_t *s, shoal_loader_t *loader) {
  for (;;) {
    shoal_batch_t batch;
    SHOAL_RETURN_IF_ERROR(shoal_loader_next(loader, &batch));
    if (batch.rows == 0) return NULL;
    SHOAL_RETURN_IF_ERROR(feed(s, &batch));
    SHOAL_RETURN_IF_ERROR(shoal_run(s, batch.rows == BATCH ? "train" : "train.last"));
  }
}

// Counts the held-out points that are classified correctly.
static shoal_status_t evaluate(shoal_session_t *s, shoal_loader_t *loader, int *out_right) {
  static float logits[HELD_OUT][2];
  shoal_batch_t batch;
  SHOAL_RETURN_IF_ERROR(shoal_loader_next(loader, &batch));
  SHOAL_RETURN_IF_ERROR(feed(s, &batch));
  SHOAL_RETURN_IF_ERROR(shoal_run(s, "eval"));
  SHOAL_RETURN_IF_ERROR(shoal_fetch(s, "logits", logits, sizeof logits));
  const int32_t *y = batch.columns[1].data;
  *out_right = 0;
  for (int i = 0; i < HELD_OUT; ++i) *out_right += (logits[i][1] > logits[i][0]) == y[i];
  return NULL;
}

int main(void) {
  shoal_dataset_t *points = NULL, *training = NULL, *held_out = NULL;
  shoal_loader_t *batches = NULL, *questions = NULL;
  shoal_model_t *model = NULL;
  shoal_session_t *s = NULL;
  int right = 0;
  shoal_status_t status = NULL;
  SHOAL_GOTO_IF_ERROR(status, done, open_points(&points));
  SHOAL_GOTO_IF_ERROR(status, done, shoal_dataset_split(points, HELD_OUT, &training, &held_out));
  const shoal_loader_options_t shuffled = {
      .batch = BATCH, .seed = 1, .last_batch = SHOAL_LAST_SHORT, .epochs = EPOCHS, .ahead = 2};
  SHOAL_GOTO_IF_ERROR(status, done, shoal_loader_create(training, &shuffled, &batches));
  const shoal_loader_options_t in_order = {.batch = HELD_OUT, .in_order = true, .as_stored = true};
  SHOAL_GOTO_IF_ERROR(status, done, shoal_loader_create(held_out, &in_order, &questions));

  SHOAL_GOTO_IF_ERROR(status, done, shoal_model_create(NULL, &model));
  build(shoal_model_graph(model, "train"), BATCH, true);
  build(shoal_model_graph(model, "train.last"), LAST, true);
  build(shoal_model_graph(model, "eval"), HELD_OUT, false);
  SHOAL_GOTO_IF_ERROR(status, done, shoal_parallelize(model, NULL, &s));
  SHOAL_GOTO_IF_ERROR(status, done, train(s, batches));
  SHOAL_GOTO_IF_ERROR(status, done, evaluate(s, questions, &right));
  if (shoal_world_rank(shoal_session_world(s)) == 0)
    printf("%d epochs, %lld samples: %d of %d held-out points are right\n", EPOCHS,
           (long long)shoal_loader_cursor(batches), right, HELD_OUT);
  if (right < HELD_OUT * 9 / 10)
    status = SHOAL_ERROR(MISMATCH, "only %d of %d points are right", right, HELD_OUT);
done:
  shoal_status_print(status, stderr);
  int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  shoal_session_free(s);
  shoal_model_free(model);
  shoal_loader_free(batches);
  shoal_loader_free(questions);
  shoal_dataset_free(training);
  shoal_dataset_free(held_out);
  shoal_dataset_free(points);
  return code;
}
