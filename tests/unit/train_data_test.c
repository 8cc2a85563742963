// Training on data sets: each rank reads only its rows, all of them see the samples of one, and a
// run that goes on sees those that follow. links: all
#include "train_support.h"

// ---- a data set that counts -----------------------------------------------------------

typedef struct counted {
  int64_t reads;
} counted_t;

static shoal_status_t read_sample(void *self, const shoal_sample_t *sample,
                                  void *const *out_columns) {
  counted_t *counted = self;
  double x[WIDTH];
  int32_t y;
  ++counted->reads;
  make_sample("train", sample->index, x, &y);
  if (out_columns[0]) memcpy(out_columns[0], x, sizeof x);
  if (out_columns[1]) memcpy(out_columns[1], &y, sizeof y);
  return NULL;
}

static shoal_status_t make_dataset(counted_t *counted, int64_t count, shoal_dataset_t **out) {
  static const shoal_column_t columns[] = {{.name = "x", .dtype = SHOAL_F64, .shape = {1, {WIDTH}}},
                                           {.name = "y", .dtype = SHOAL_I32, .classes = CLASSES}};
  static const shoal_dataset_ops_t ops = {.read = read_sample};
  return shoal_dataset_create("counted", count, columns, 2, &ops, counted, shoal_allocator_system(),
                              out);
}

typedef struct data_run {
  run_t run;
  int64_t held_out;
  counted_t read[MOST_RANKS], evaluated[MOST_RANKS];
} data_run_t;

static shoal_status_t train_data_rank(void *self, shoal_world_t *world) {
  data_run_t *data = self;
  const int32_t rank = shoal_world_rank(world);
  shoal_train_options_t options = data->run.options;
  options.parallelize.world = world;
  shoal_status_t status = make_dataset(&data->read[rank], SAMPLES, &options.data);
  if (!status && data->held_out)
    status = make_dataset(&data->evaluated[rank], data->held_out, &options.eval_data);
  if (!status) status = shoal_train(&options, &data->run.reports[rank]);
  shoal_dataset_free(options.data);
  shoal_dataset_free(options.eval_data);
  return status;
}

static data_run_t run_data(int32_t ranks, const char *strategy, const char *mesh,
                           shoal_train_options_t options, int64_t held_out) {
  data_run_t data = {.run = make_run(options), .held_out = held_out};
  shoal_train_options_t *o = &data.run.options;
  o->feed = NULL;
  o->parallelize.strategy = strategy;
  o->parallelize.mesh = mesh;
  o->hook = keep_loss;
  o->hook_self = &data.run;
  run_ranks_ok(ranks, train_data_rank, &data);
  return data;
}

// ---- tests ----------------------------------------------------------------------------

static void expect_same(const data_run_t *a, const data_run_t *b, int64_t from, int64_t to) {
  for (int64_t step = from; step <= to; ++step) {
    assert_int_equal(a->run.cursors[step], b->run.cursors[step]);
    assert_true(fabs(a->run.losses[step] - b->run.losses[step]) < 1e-10);
  }
}

static void test_rows(void **state) {
  (void)state;
  const shoal_train_options_t options = {.epochs = 2, .last_batch = SHOAL_LAST_SHORT};
  const data_run_t one = run_data(1, "single", NULL, options, 8);
  assert_int_equal(one.run.last, 8);
  assert_true(one.run.losses[1] > 0.5);
  const data_run_t three = run_data(3, "data", NULL, options, 8);
  expect_same(&one, &three, 1, 8);
  assert_true(fabs(one.run.reports[0].metrics[0].value - three.run.reports[2].metrics[0].value) <
              1e-10);
  // A third of each batch, and of those that were read ahead.
  for (int i = 0; i < 3; ++i) {
    assert_true(three.read[i].reads >= 2 * SAMPLES / 3 - 1);
    assert_true(three.read[i].reads <= 2 * SAMPLES / 3 + 8);
    assert_true(three.evaluated[i].reads >= 2 && three.evaluated[i].reads <= 4);
  }
  const data_run_t tensor = run_data(2, "tensor", NULL, options, 0);
  expect_same(&one, &tensor, 1, 8);
  const data_run_t both = run_data(4, "tensor", "data=2,tensor=2", options, 0);
  expect_same(&one, &both, 1, 8);
  const data_run_t micro = run_data(2, "data", "data=2,micro=2", options, 0);
  expect_same(&one, &micro, 1, 8);
}

static void test_resume(void **state) {
  (void)state;
  const shoal_train_options_t ways[] = {{.steps = 9},
                                        {.steps = 9, .last_batch = SHOAL_LAST_DROPPED},
                                        {.steps = 9, .last_batch = SHOAL_LAST_SHORT}};
  for (int i = 0; i < 3; ++i) {
    char folder[32];
    make_folder(folder);
    shoal_train_options_t options = ways[i];
    const data_run_t whole = run_data(1, "single", NULL, options, 0);
    options.folder = folder;
    options.steps = 5;
    const data_run_t first = run_data(2, "data", NULL, options, 0);
    options.steps = 9;
    options.resume = true;
    const data_run_t second = run_data(3, "data", NULL, options, 0);
    expect_same(&whole, &first, 1, 5);
    expect_same(&whole, &second, 6, 9);
    remove_folder(folder);
  }
}

// Another seed, another order; the same seed, the same.
static void test_seed(void **state) {
  (void)state;
  const data_run_t a = run_data(1, "single", NULL, (shoal_train_options_t){.steps = 2}, 0);
  const data_run_t again = run_data(2, "data", NULL, (shoal_train_options_t){.steps = 2}, 0);
  const data_run_t other =
      run_data(1, "single", NULL, (shoal_train_options_t){.steps = 2, .seed = 12}, 0);
  expect_same(&a, &again, 1, 2);
  assert_true(fabs(a.run.losses[1] - other.run.losses[1]) > 1e-6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_resume),
      cmocka_unit_test(test_seed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
