// shoal schedule 1f1b --stages 4 --micro 8: prints the table of a schedule, or reads and checks one
// from a file, and draws it in time. The drawing is in comments, so that what is printed is a table
// file again.
#include <string.h>

#include "cli.h"
#include "planning.h"
#include "shoal/schedule.h"

typedef struct schedule_options {
  int64_t stages, micro, virtual_stages, width;
  const char *times;
  bool help;
} schedule_options_t;

static const shoal_option_t OPTIONS[] = {
    SHOAL_OPTION(schedule_options_t, INT, stages, "4", "meshes in a row", .positive = true),
    SHOAL_OPTION(schedule_options_t, INT, micro, "8", "micro-batches", .positive = true),
    {.name = "virtual",
     .kind = SHOAL_OPTION_INT,
     .offset = offsetof(schedule_options_t, virtual_stages),
     .value = "1",
     .doc = "stages on each mesh",
     .positive = true},
    SHOAL_OPTION(schedule_options_t, STRING, times, "1,1,1",
                 "how long F, B and W of a stage take; B takes both where it is not split"),
    SHOAL_OPTION(schedule_options_t, INT, width, "160", "columns of the drawing", .positive = true),
    SHOAL_OPTION(schedule_options_t, BOOL, help, NULL, "this list", .letter = 'h'),
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

static shoal_status_t parse_times(const char *text, double out[SHOAL_WORK_COUNT]) {
  char rest;
  if (sscanf(text, "%lf,%lf,%lf%c", &out[0], &out[1], &out[2], &rest) != SHOAL_WORK_COUNT)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write three numbers, as in 1,1,1",
                            "--times '%s' cannot be read", text);
  return NULL;
}

static bool is_generator(const char *word) {
  for (int64_t i = 0; shoal_schedule_name(i); ++i)
    if (strcmp(shoal_schedule_name(i), word) == 0) return true;
  return false;
}

static shoal_status_t make(const char *word, const schedule_options_t *options,
                           shoal_arena_t *arena, const shoal_schedule_t **out_schedule) {
  const int64_t most = INT32_MAX;
  const shoal_pipeline_t pipeline = {
      .mesh_count = (int32_t)(options->stages < most ? options->stages : most),
      .micro = (int32_t)(options->micro < most ? options->micro : most),
      .stage_count = (int32_t)(options->virtual_stages < most / options->stages
                                   ? options->stages * options->virtual_stages
                                   : most)};
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

static shoal_status_t print_schedule(const shoal_schedule_t *t, const schedule_options_t *options,
                                     shoal_arena_t *arena, FILE *out) {
  double durations[SHOAL_WORK_COUNT];
  const char *text, *picture;
  shoal_schedule_times_t times;
  SHOAL_RETURN_IF_ERROR(parse_times(options->times, durations));
  SHOAL_RETURN_IF_ERROR(shoal_schedule_check(t));
  SHOAL_RETURN_IF_ERROR(shoal_schedule_time(t, durations, arena, &times));
  SHOAL_RETURN_IF_ERROR(shoal_schedule_print(t, arena, &text));
  SHOAL_RETURN_IF_ERROR(shoal_schedule_draw(t, durations, options->width, arena, &picture));
  fprintf(out, "# %s: %d stages on %d meshes, %d micro-batches\n", t->name, t->stage_count,
          t->mesh_count, t->micro);
  fprintf(out, "# time %g, bubble %.1f %%\n", times.makespan, 100 * times.bubble);
  print_in_flight(t, SHOAL_WORK_BACKWARD, out);
  if (t->split) print_in_flight(t, SHOAL_WORK_WEIGHT, out);
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
  if (words.count != 1)
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "there are gpipe, 1f1b, 1f1b+1, interleaved and zb-h1",
        "shoal schedule takes one schedule's name, or a file with a table; it got %lld words",
        (long long)words.count);
  SHOAL_RETURN_IF_ERROR(make(words.items[0], &options, arena, &schedule));
  return print_schedule(schedule, &options, arena, out);
}
