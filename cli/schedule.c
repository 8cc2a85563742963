// shoal schedule 1f1b --stages 4 --micro 8: prints the table of a schedule, or reads and checks one
// from a file, and draws it in time. The drawing is in comments, so that what is printed is a table
// file again.
#include <math.h>
#include <string.h>

#include "cli.h"
#include "planning.h"
#include "shoal/schedule.h"

typedef struct schedule_options {
  int64_t stages, micro, virtual_stages, width;
  const char *kind, *times;
  bool help;
} schedule_options_t;

static const shoal_option_t OPTIONS[] = {
    SHOAL_OPTION(schedule_options_t, STRING, kind, NULL,
                 "the schedule's name, in place of the first word", .argument = "NAME"),
    SHOAL_OPTION(schedule_options_t, INT, stages, "4", "meshes in a row", .positive = true),
    SHOAL_OPTION(schedule_options_t, INT, micro, "8", "micro-batches", .positive = true),
    {.name = "virtual",
     .kind = SHOAL_OPTION_INT,
     .offset = offsetof(schedule_options_t, virtual_stages),
     .value = "1",
     .doc = "stages on each mesh; zb-v has two",
     .positive = true},
    SHOAL_OPTION(schedule_options_t, STRING, times, "1,1,1,0",
                 "how long F, B and W of a stage take, and moving values to the next one; B takes "
                 "B and W where it is not split",
                 .argument = "F,B,W,COMM"),
    SHOAL_OPTION(schedule_options_t, INT, width, "160", "columns of the drawing", .positive = true),
    SHOAL_OPTION(schedule_options_t, BOOL, help, NULL, "this list", .letter = 'h'),
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

static shoal_status_t parse_times(const char *text, shoal_durations_t *out) {
  char rest;
  double *works = out->works;
  out->comm = 0;
  const int count =
      sscanf(text, "%lf,%lf,%lf,%lf%c", &works[0], &works[1], &works[2], &out->comm, &rest);
  if (count == 4 || (count == 3 && strspn(text, "+-.0123456789eE,") == strlen(text) &&
                     text[strlen(text) - 1] != ','))
    return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write three or four numbers, as in 1,1,1,0.1",
                          "--times '%s' cannot be read", text);
}

static bool is_generator(const char *word) {
  for (int64_t i = 0; shoal_schedule_name(i); ++i)
    if (strcmp(shoal_schedule_name(i), word) == 0) return true;
  return false;
}

static shoal_status_t make(const char *word, const schedule_options_t *options,
                           shoal_arena_t *arena, const shoal_schedule_t **out_schedule) {
  const int64_t most = INT32_MAX;
  const int64_t each =
      strcmp(word, "zb-v") == 0 && options->virtual_stages == 1 ? 2 : options->virtual_stages;
  const shoal_pipeline_t pipeline = {
      .mesh_count = (int32_t)(options->stages < most ? options->stages : most),
      .micro = (int32_t)(options->micro < most ? options->micro : most),
      .stage_count = (int32_t)(each < most / options->stages ? options->stages * each : most)};
  if (is_generator(word)) return shoal_schedule_create(word, &pipeline, arena, out_schedule);
  const char *text;
  int64_t size;
  shoal_status_t status = shoal_file_read(word, arena, &text, &size);
  if (shoal_status_code(status) == SHOAL_NOT_FOUND) {
    shoal_status_free(status);
    return shoal_schedule_create(word, &pipeline, arena, out_schedule);  // says what there is
  }
  SHOAL_RETURN_IF_ERROR(status);
  return shoal_schedule_parse(word, text, arena, out_schedule);
}

static void print_in_flight(const shoal_schedule_t *t, shoal_work_t to, FILE *out) {
  fprintf(out, "# in flight by stage, F to %c:", to == SHOAL_WORK_WEIGHT ? 'W' : 'B');
  for (int32_t s = 0; s < t->stage_count; ++s)
    fprintf(out, " %d", shoal_schedule_in_flight(t, s, SHOAL_WORK_FORWARD, to));
  fputc('\n', out);
}

static void print_times(const shoal_schedule_times_t *times, FILE *out) {
  if (times->period < times->makespan * (1 - 1e-12))
    fprintf(out,
            "# a step every %g, bubble %.2f %%; if all meshes wait for each other between steps, "
            "as for one norm of all gradients: time %g, bubble %.2f %%\n",
            times->period, 100 * times->period_bubble, times->makespan, 100 * times->bubble);
  else
    fprintf(out, "# time %g, bubble %.2f %%\n", times->makespan, 100 * times->bubble);
}

// Of the mesh with the most: how many stages' activations of one micro-batch it holds.
static void print_most(const shoal_schedule_t *t, FILE *out) {
  const shoal_work_t to = t->split ? SHOAL_WORK_WEIGHT : SHOAL_WORK_BACKWARD;
  int32_t most = 0;
  for (int32_t r = 0; r < t->mesh_count; ++r) {
    int32_t now = 0;
    for (int64_t k = 0; k < t->rows[r].count; ++k) {
      now +=
          (t->rows[r].entries[k].work == SHOAL_WORK_FORWARD) - (t->rows[r].entries[k].work == to);
      if (now > most) most = now;
    }
  }
  fprintf(out, "# at most %g micro-batches of activations on a mesh\n",
          (double)most * t->mesh_count / t->stage_count);
}

static shoal_status_t print_schedule(const shoal_schedule_t *t, const schedule_options_t *options,
                                     shoal_arena_t *arena, FILE *out) {
  shoal_durations_t durations;
  const char *text, *picture;
  shoal_schedule_times_t times;
  SHOAL_RETURN_IF_ERROR(parse_times(options->times, &durations));
  SHOAL_RETURN_IF_ERROR(shoal_schedule_check(t));
  SHOAL_RETURN_IF_ERROR(shoal_schedule_time(t, &durations, arena, &times));
  if (!isfinite(times.makespan) || !isfinite(times.bubble) || !isfinite(times.period_bubble))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give them in a larger unit",
                            "--times '%s': the time of the whole schedule is beyond any number",
                            options->times);
  SHOAL_RETURN_IF_ERROR(shoal_schedule_print(t, arena, &text));
  SHOAL_RETURN_IF_ERROR(shoal_schedule_draw(t, &durations, options->width, arena, &picture));
  fprintf(out, "# %s: %d stages on %d meshes, %d micro-batches\n", t->name, t->stage_count,
          t->mesh_count, t->micro);
  print_times(&times, out);
  print_in_flight(t, SHOAL_WORK_BACKWARD, out);
  if (t->split) print_in_flight(t, SHOAL_WORK_WEIGHT, out);
  print_most(t, out);
  fprintf(out, "#\n");
  for (const char *at = picture, *end; (end = strchr(at, '\n')); at = end + 1)
    fprintf(out, "# %.*s\n", (int)(end - at), at);
  fprintf(out, "#\n%s", text);
  return NULL;
}

shoal_status_t cli_schedule(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  schedule_options_t options = {0};
  shoal_words_t words = {0};
  const shoal_schedule_t *schedule = NULL;
  SHOAL_RETURN_IF_ERROR(cli_options("schedule", "NAME|FILE", OPTIONS, OPTION_COUNT, argc, argv,
                                    arena, &options, &words, out));
  if (options.help) return NULL;
  if (words.count + (options.kind != NULL) != 1)
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "there are gpipe, 1f1b, 1f1b+1, interleaved, zb-h1, zb-h2 and zb-v",
        "shoal schedule takes one schedule's name, or a file with a table; it got %lld words",
        (long long)words.count + (options.kind != NULL));
  SHOAL_RETURN_IF_ERROR(
      make(options.kind ? options.kind : words.items[0], &options, arena, &schedule));
  return print_schedule(schedule, &options, arena, out);
}
