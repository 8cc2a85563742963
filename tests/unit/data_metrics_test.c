// Metrics: lines of JSON that read back, event files decoded by hand, curves drawn.
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/events.h"
#include "data/plot.h"
#include "shoal/metrics.h"
#include "unit/arena.h"
#include "unit/failing.h"

static char folder[] = "/tmp/shoal_metrics_XXXXXX";

static const char *in_folder(const char *name) {
  return shoal_arena_printf(&arena, "%s/%s", folder, name);
}

static int setup_folder(void **state) {
  setup_arena(state);
  return mkdtemp(folder) ? 0 : -1;
}

static void empty_folder(void) {
  DIR *list = opendir(folder);
  for (struct dirent *entry; (entry = readdir(list));)
    if (entry->d_name[0] != '.') unlink(in_folder(entry->d_name));
  closedir(list);
}

static int teardown_folder(void **state) {
  empty_folder();
  rmdir(folder);
  return teardown_arena(state);
}

static const char *content(const char *name, int64_t *out_size) {
  const char *data;
  assert_ok(shoal_file_read(in_folder(name), &arena, &data, out_size));
  return data;
}

static void write_text(const char *name, const char *text) {
  assert_ok(shoal_file_write(in_folder(name), text, (int64_t)strlen(text)));
}

// ---- lines --------------------------------------------------------------------------------------

static void log_steps(bool append, int64_t from, int64_t to, double shift) {
  shoal_metrics_t *metrics;
  assert_ok(shoal_metrics_open(
      &(shoal_metrics_options_t){.jsonl = in_folder("run.jsonl"), .append = append}, &metrics));
  for (int64_t step = from; step <= to; ++step) {
    const shoal_metric_t values[] = {{"loss", shift + 1.0 / (double)step}, {"lr", 0.1}};
    assert_ok(shoal_metrics_write(metrics, step, values, 2));
  }
  shoal_metrics_free(metrics);
}

static void test_lines(void **state) {
  (void)state;
  shoal_metrics_t *metrics;
  int64_t size;
  shoal_curves_t curves;
  assert_ok(
      shoal_metrics_open(&(shoal_metrics_options_t){.jsonl = in_folder("run.jsonl")}, &metrics));
  const shoal_metric_t first[] = {{"loss", 2.5}, {"validation/\"loss\"", NAN}, {"n", -INFINITY}};
  assert_ok(shoal_metrics_write(metrics, 7, first, 3));
  assert_error(INVALID_ARGUMENT, "cannot have the name 'step'",
               shoal_metrics_write(metrics, 8, &(shoal_metric_t){"step", 1}, 1));
  const shoal_metric_t twice[] = {{"a", 1}, {"a", 2}};
  assert_error(INVALID_ARGUMENT, "'a'", shoal_metrics_write(metrics, 8, twice, 2));
  shoal_metrics_free(metrics);
  shoal_metrics_free(NULL);
  const char *line = content("run.jsonl", &size), *time = strstr(line, "\"time\": ");
  assert_non_null(time);
  assert_memory_equal(line, "{\"step\": 7, \"time\": ", 20);
  assert_true(strtod(time + 8, NULL) > 1.6e9);
  assert_string_equal(strchr(time, ','),
                      ", \"loss\": 2.5, \"validation/\\\"loss\\\"\": \"nan\", \"n\": \"-inf\"}\n");
  assert_ok(shoal_metrics_read(in_folder("run.jsonl"), &arena, &curves));
  assert_int_equal(curves.count, 3);
  assert_string_equal(curves.items[1].name, "validation/\"loss\"");
  assert_true(isnan(curves.items[1].values[0]) && curves.items[2].values[0] == -INFINITY);
  assert_int_equal(curves.items[0].steps[0], 7);
  assert_error(IO, "cannot write",
               shoal_metrics_open(&(shoal_metrics_options_t){.jsonl = folder}, &metrics));
  assert_ok(shoal_metrics_open(NULL, &metrics));  // no file
  assert_ok(shoal_metrics_write(metrics, 1, &(shoal_metric_t){"loss", 1}, 1));
  shoal_metrics_free(metrics);
}

// A run that was killed while it wrote, then resumed at an earlier step.
static void test_resumed(void **state) {
  (void)state;
  shoal_curves_t curves;
  log_steps(false, 1, 9, 0);
  int64_t size;
  const char *lines = content("run.jsonl", &size);
  assert_ok(shoal_file_write(in_folder("run.jsonl"), lines, size - 11));
  assert_ok(shoal_metrics_read(in_folder("run.jsonl"), &arena, &curves));
  assert_true(curves.cut_short);
  assert_int_equal(curves.items[0].count, 8);
  log_steps(true, 6, 12, 10);
  assert_ok(shoal_metrics_read(in_folder("run.jsonl"), &arena, &curves));
  assert_false(curves.cut_short);
  assert_int_equal(curves.count, 2);
  assert_int_equal(curves.items[0].count, 12);
  for (int64_t i = 0; i < 12; ++i) {
    assert_int_equal(curves.items[0].steps[i], i + 1);
    assert_true(curves.items[0].values[i] == (i < 5 ? 0 : 10) + 1.0 / (double)(i + 1));
  }
  log_steps(false, 1, 2, 0);  // begun anew
  assert_ok(shoal_metrics_read(in_folder("run.jsonl"), &arena, &curves));
  assert_int_equal(curves.items[0].count, 2);
}

// A file that holds something else stays as it is, in a new run and in one that is resumed.
static void test_other_file(void **state) {
  (void)state;
  static const char *const others[] = {"To be, or not", "{\"a\": 1}\n", "{"};
  for (int i = 0; i < 3; ++i)
    for (int append = 0; append < 2; ++append) {
      shoal_metrics_t *metrics = NULL;
      int64_t size;
      write_text("other", others[i]);
      const shoal_metrics_options_t options = {.jsonl = in_folder("other"), .append = append};
      if (i == 2) {
        assert_ok(shoal_metrics_open(&options, &metrics));  // begun, and killed at once
        shoal_metrics_free(metrics);
      } else {
        assert_error(INVALID_ARGUMENT, "something else than metrics",
                     shoal_metrics_open(&options, &metrics));
        assert_string_equal(content("other", &size), others[i]);
      }
    }
}

static void test_bad_lines(void **state) {
  (void)state;
  shoal_curves_t curves;
  static const char *const bad[] = {"{\"step\": 1, \"loss\": 2}\n{\"step\": 2,\n{\"step\": 3}\n",
                                    "{\"step\": 1, \"loss\": 2}\n{\"loss\": 2}\n",
                                    "{\"step\": 1, \"loss\": 2}\n[1]\n",
                                    "\n{\"step\": 1.5, \"loss\": 2}\n"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    write_text("bad.jsonl", bad[i]);
    assert_error(INVALID_ARGUMENT, "bad.jsonl:2: this is no line of metrics",
                 shoal_metrics_read(in_folder("bad.jsonl"), &arena, &curves));
  }
  write_text("bad.jsonl", "");
  assert_error(INVALID_ARGUMENT, "no line was written",
               shoal_metrics_read(in_folder("bad.jsonl"), &arena, &curves));
  assert_error(NOT_FOUND, "none.jsonl",
               shoal_metrics_read(in_folder("none.jsonl"), &arena, &curves));
  write_text("bad.jsonl", "{\"step\": 1, \"loss\": 2, \"note\": \"text\"}\n\n");
  assert_ok(shoal_metrics_read(in_folder("bad.jsonl"), &arena, &curves));
  assert_int_equal(curves.count, 1);
}

// ---- event files --------------------------------------------------------------------------------

static uint64_t number(const char *at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= (uint64_t)(unsigned char)at[i] << 8 * i;
  return value;
}

static uint32_t masked(const char *data, int64_t size) {
  const uint32_t crc = shoal_crc32c(data, size);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

static uint64_t varint(const char **at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const unsigned char byte = (unsigned char)*(*at)++;
    value |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

// "step 300: loss=2.5 lr=0.1" of a message Event.
static const char *event_text(const char *at, const char *end) {
  const char *text = "";
  while (at < end) {
    const uint64_t field = varint(&at);
    if (field == (1 << 3 | 1)) {
      double time;
      memcpy(&time, at, 8);
      assert_true(time > 1.6e9);
      at += 8;
    } else if (field == (2 << 3 | 0)) {
      text = shoal_arena_printf(&arena, "%sstep %llu:", text, (unsigned long long)varint(&at));
    } else if (field == (3 << 3 | 2)) {
      const int size = (int)varint(&at);
      text = shoal_arena_printf(&arena, "%sversion %.*s", text, size, at);
      at += size;
    } else {
      assert_int_equal(field, 5 << 3 | 2);
      const int64_t summary = (int64_t)varint(&at);
      assert_ptr_equal(at + summary, end);  // the last field of an event
      while (at < end) {
        assert_int_equal(varint(&at), 1 << 3 | 2);
        const int64_t size = (int64_t)varint(&at);
        const char *value_end = at + size;
        assert_int_equal(varint(&at), 1 << 3 | 2);
        const int tag = (int)varint(&at);
        const char *name = at;
        at += tag;
        assert_int_equal(varint(&at), 2 << 3 | 5);
        float value;
        memcpy(&value, at, 4);
        at += 4;
        assert_ptr_equal(at, value_end);
        text = shoal_arena_printf(&arena, "%s %.*s=%g", text, tag, name, (double)value);
      }
    }
  }
  return text;
}

static void test_events(void **state) {
  (void)state;
  assert_int_equal(shoal_crc32c("123456789", 9), 0xE3069283u);
  empty_folder();
  shoal_metrics_t *metrics;
  assert_ok(shoal_metrics_open(&(shoal_metrics_options_t){.tensorboard = folder}, &metrics));
  char long_name[201];
  memset(long_name, 'n', 200);
  long_name[200] = 0;
  const shoal_metric_t values[] = {{"loss", 2.5}, {long_name, -1}, {"x", NAN}};
  assert_ok(shoal_metrics_write(metrics, 3, values, 1));
  assert_ok(shoal_metrics_write(metrics, 300, values, 3));
  shoal_metrics_free(metrics);
  DIR *list = opendir(folder);
  const char *name = NULL;
  for (struct dirent *entry; (entry = readdir(list));)
    if (entry->d_name[0] != '.') name = shoal_arena_strdup(&arena, entry->d_name);
  closedir(list);
  assert_non_null(name);
  assert_memory_equal(name, "events.out.tfevents.", 20);
  int64_t size;
  const char *data = content(name, &size), *found[3];
  int count = 0;
  for (const char *at = data; at < data + size; ++count) {
    const int64_t length = (int64_t)number(at, 8);
    assert_int_equal(number(at + 8, 4), masked(at, 8));
    assert_true(at + 16 + length <= data + size && count < 3);
    assert_int_equal(number(at + 12 + length, 4), masked(at + 12, length));
    found[count] = event_text(at + 12, at + 12 + length);
    at += 16 + length;
  }
  assert_int_equal(count, 3);
  assert_string_equal(found[0], "version brain.Event:2");
  assert_string_equal(found[1], "step 3: loss=2.5");
  assert_string_equal(found[2],
                      shoal_arena_printf(&arena, "step 300: loss=2.5 %s=-1 x=nan", long_name));
}

// ---- drawing ------------------------------------------------------------------------------------

static void check_ticks(double low, double high, bool log, const char *expected) {
  plot_axis_t axis;
  const char *text = "";
  shoal_plot_axis(low, high, log, false, 6, &axis);
  for (int64_t i = 0; i < axis.count; ++i) {
    char label[32];
    shoal_plot_label(axis.ticks[i], label);
    text = shoal_arena_printf(&arena, "%s%s%s", text, i ? " " : "", label);
    const double at = shoal_plot_at(&axis, axis.ticks[i]);
    assert_true(at >= -1e-9 && at <= 1 + 1e-9);
  }
  assert_string_equal(text, expected);
}

static void test_axes(void **state) {
  (void)state;
  check_ticks(0, 1000, false, "0 200 400 600 800 1000");
  check_ticks(1, 50000, false, "10k 20k 30k 40k 50k");
  check_ticks(2.17, 8.4, false, "4 6 8");
  check_ticks(-0.0003, 0.0011, false, "0 0.0005 0.001");
  check_ticks(5, 5, false, "3 4 5 6 7");
  check_ticks(0, 0, false, "-0.4 -0.2 0 0.2 0.4");
  check_ticks(0.002, 3, true, "0.01 0.1 1");
  check_ticks(0.5, 20, true, "0.5 1 2 5 10 20");
  check_ticks(2, 8, true, "2 3 4 5 6 7 8");
  check_ticks(1e-9, 1e12, true, "1e-09 1e-06 0.001 1 1000 1M 1G 1T");
}

static int64_t count_of(const char *text, const char *part) {
  int64_t count = 0;
  for (; (text = strstr(text, part)); text += strlen(part)) ++count;
  return count;
}

static void test_drawing(void **state) {
  (void)state;
  static const int64_t steps[] = {1, 2, 3, 4, 5};
  static const double loss[] = {4, 3, NAN, 2, 0}, rate[] = {1, 1, 1, 1, 1};
  const shoal_curve_t items[] = {{"loss", 5, steps, loss}, {"lr", 5, steps, rate}};
  const shoal_curves_t runs[] = {{"runs/a<1>/m.jsonl", 2, items, false},
                                 {"runs/b/m.jsonl", 2, items, false}};
  const char *svg;
  assert_ok(shoal_plot_svg(&(shoal_plot_t){.runs = runs, .run_count = 1}, &arena, &svg));
  assert_non_null(strstr(svg, ">loss</text>"));
  assert_null(strstr(svg, ">lr</text>"));
  assert_int_equal(count_of(svg, "stroke-linejoin"), 1);
  assert_non_null(strstr(svg, "not finite at step 3"));
  // From (1, 4) to (2, 3), a gap, from (4, 2) to (5, 0): pixels of the field.
  assert_non_null(strstr(svg, "d='M70.0 56.1L266.0 144.0M658.0 232.0L854.0 407.9'"));
  assert_ok(
      shoal_plot_svg(&(shoal_plot_t){.runs = runs, .run_count = 2, .log = true}, &arena, &svg));
  assert_non_null(strstr(svg, ">a&lt;1> loss</text>"));
  assert_int_equal(count_of(svg, "stroke-linejoin"), 2);
  assert_non_null(strstr(svg, "h0.1"));  // 2 alone between NaN and 0
  const char *const names[] = {"loss", "lr"};
  assert_ok(shoal_plot_svg(&(shoal_plot_t){.runs = runs,
                                           .run_count = 1,
                                           .names = names,
                                           .name_count = 2,
                                           .smooth = 0.5,
                                           .title = "a & b"},
                           &arena, &svg));
  assert_int_equal(count_of(svg, "stroke-linejoin"), 4);  // two, and both as they were
  assert_non_null(strstr(svg, "a &amp; b"));
  const char *const none[] = {"acc"};
  assert_error(NOT_FOUND, "loss, lr",
               shoal_plot_svg(&(shoal_plot_t){runs, 1, none, 1, 0, false, NULL}, &arena, &svg));
  assert_error(
      INVALID_ARGUMENT, "less than 1",
      shoal_plot_svg(&(shoal_plot_t){.runs = runs, .run_count = 1, .smooth = 1}, &arena, &svg));
}

// ---- memory -------------------------------------------------------------------------------------

static shoal_status_t use(shoal_allocator_t allocator, void *context) {
  (void)context;
  shoal_metrics_t *metrics = NULL;
  shoal_status_t status = shoal_metrics_open(
      &(shoal_metrics_options_t){allocator, in_folder("m.jsonl"), folder, false}, &metrics);
  if (!status) status = shoal_metrics_write(metrics, 1, &(shoal_metric_t){"loss", 1}, 1);
  shoal_metrics_free(metrics);
  shoal_arena_t *own = NULL;
  shoal_curves_t curves;
  const char *svg;
  if (!status) status = shoal_arena_create(allocator, &own);
  if (!status) status = shoal_metrics_read(in_folder("m.jsonl"), own, &curves);
  if (!status) status = shoal_plot_svg(&(shoal_plot_t){.runs = &curves, .run_count = 1}, own, &svg);
  shoal_arena_free(own);
  return status;
}

static void test_memory(void **state) {
  (void)state;
  assert_true(check_failing_allocations(use, NULL, 0) > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines),      cmocka_unit_test(test_resumed),
      cmocka_unit_test(test_other_file), cmocka_unit_test(test_bad_lines),
      cmocka_unit_test(test_events),     cmocka_unit_test(test_axes),
      cmocka_unit_test(test_drawing),    cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, setup_folder, teardown_folder);
}
