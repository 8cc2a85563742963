// `shoal train MODEL`: trains a zoo model on local ranks - threads or processes of this machine, or
// the ranks a launcher made. The loop is shoal_train; here are its options and what is printed.
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"
#include "data.h"
#include "interrupt.h"
#include "models.h"
#include "past.h"
#include "peak.h"
#include "planning.h"
#include "print.h"
#include "ranks.h"
#include "shoal/cluster.h"

typedef struct train_command {
  cli_model_options_t model;
  cli_plan_options_t planning;
  cli_data_options_t input;
  int64_t steps, epochs, log_every, save_every, keep, eval_every, eval_samples;
  const char *save, *load, *best, *metrics, *tensorboard, *times_out, *offload_dir;
  shoal_words_t watch;
  int missing, extra, last_batch;
  bool save_async, resume, overwrite, raw, threads, opaque, dry_run, check_nan, help;
} train_command_t;

enum { REFUSE, PASS, KEEP = 3 };
static const char *const missing_choices[] = {"refuse", "keep", NULL};
static const char *const last_batch_choices[] = {"filled", "short", "dropped", NULL};
static const char *const extra_choices[] = {"refuse", "ignore", NULL};

static const shoal_option_t table[] = {
    CLI_MODEL_OPTIONS(train_command_t),
    CLI_SEED_OPTION(train_command_t),
    CLI_DATA_OPTIONS(train_command_t),
    CLI_VARY_OPTIONS(train_command_t),
    CLI_DATA_OPTION(train_command_t, REAL, held_out, NULL,
                    "share of the data, or number of samples, to evaluate on"),
    CLI_DATA_OPTION(train_command_t, STRING, eval_data, NULL, "file or folder to evaluate on",
                    .argument = "FILE"),
    SHOAL_OPTION(train_command_t, ENUM, last_batch, NULL,
                 "what becomes of the samples at the end of an epoch that do not fill a batch",
                 .choices = last_batch_choices),
    CLI_TRAINING_OPTIONS(train_command_t),
    SHOAL_OPTION(train_command_t, INT, steps, NULL, "steps to train (200, if no epochs are given)",
                 .heading = "Run"),
    SHOAL_OPTION(train_command_t, INT, epochs, NULL, "times to go through the data"),
    SHOAL_OPTION(train_command_t, INT, eval_every, NULL,
                 "steps between evaluations (0: only at the end)"),
    SHOAL_OPTION(train_command_t, INT, eval_samples, NULL, "samples of an evaluation (0: all)"),
    SHOAL_OPTION(train_command_t, BOOL, resume, NULL, "go on from the newest checkpoint of --save"),
    SHOAL_OPTION(train_command_t, STRING, load, NULL,
                 "checkpoint whose weights to begin with: a folder, a file, or a folder of step-N",
                 .argument = "DIR"),
    SHOAL_OPTION(train_command_t, ENUM, missing, "refuse",
                 "--load: what it lacks is refused, or keeps its initial values",
                 .choices = missing_choices),
    SHOAL_OPTION(train_command_t, ENUM, extra, "refuse",
                 "--load: what the model has no place for is refused, or ignored",
                 .choices = extra_choices),
    SHOAL_OPTION(train_command_t, BOOL, raw, NULL, "--load: " CLI_RAW_HELP),
    SHOAL_OPTION(train_command_t, BOOL, check_nan, NULL,
                 "look at every value, and name the first that is no number; slow"),
    SHOAL_OPTION(train_command_t, BOOL, dry_run, NULL,
                 "plan the model and check the program, then stop"),
    CLI_PLAN_OPTIONS(train_command_t),
    SHOAL_OPTION(train_command_t, BOOL, threads, NULL, "ranks are threads, not processes",
                 .no_environment = true),
    SHOAL_OPTION(train_command_t, BOOL, opaque, NULL,
                 "device memory that the host cannot read, like a GPU's"),
    SHOAL_OPTION(train_command_t, STRING, offload_dir, NULL,
                 "folder for what the plan keeps in files (TMPDIR, or /tmp)", .argument = "DIR"),
    SHOAL_OPTION(train_command_t, STRING, save, NULL,
                 "folder for checkpoints step-N; also on SIGTERM, SIGINT", .heading = "Output",
                 .argument = "DIR"),
    SHOAL_OPTION(train_command_t, INT, save_every, NULL,
                 "steps between checkpoints (0: only at the end)"),
    SHOAL_OPTION(train_command_t, BOOL, save_async, NULL,
                 "write checkpoints while the next steps run, from a copy in host memory"),
    SHOAL_OPTION(train_command_t, INT, keep, "3", "checkpoints to keep (0: all)"),
    SHOAL_OPTION(train_command_t, STRING, best, NULL,
                 "metric of evaluations whose best is kept, as 'best': loss, +accuracy",
                 .argument = "NAME"),
    SHOAL_OPTION(train_command_t, BOOL, overwrite, NULL,
                 "start anew in a folder with checkpoints: removes them"),
    SHOAL_OPTION(train_command_t, INT, log_every, "20", "steps between progress lines"),
    SHOAL_OPTION(train_command_t, STRING, metrics, NULL,
                 "the numbers of the run, lines of JSON: see `shoal plot`", .argument = "FILE"),
    SHOAL_OPTION(train_command_t, STRING, tensorboard, NULL, "folder for TensorBoard's files",
                 .argument = "DIR"),
    SHOAL_OPTION(train_command_t, STRINGS, watch, NULL,
                 "values whose norm is logged, as 'fc1/*'; may be repeated", .no_environment = true,
                 .argument = "PATTERN"),
    SHOAL_OPTION(train_command_t, STRING, times_out, NULL,
                 "what instructions and links take, for `simulate --times`", .argument = "FILE"),
    SHOAL_OPTION(train_command_t, BOOL, help, NULL, "this list")};
#define TABLE_COUNT ((int64_t)(sizeof table / sizeof table[0]))

// One rank's training; `talks` on rank 0.
typedef struct trainer {
  const train_command_t *command;
  const char *name;           // of the model
  cli_model_options_t model;  // the command's, with what a checkpoint and the data tell
  shoal_zoo_t *zoo;
  shoal_arena_t *arena;
  FILE *out;
  bool talks;
  bool open_line;  // a terminal: the last line may be written over
} trainer_t;

// ---- what is printed ------------------------------------------------------------------

static void print_line(void *self, bool progress, const char *line) {
  trainer_t *t = self;
  const bool terminal = isatty(fileno(t->out));
  struct winsize window = {0};
  if (t->open_line) fputs(progress ? "\r\033[K" : "\n", t->out);
  t->open_line = progress && terminal;
  if (t->open_line && ioctl(fileno(t->out), TIOCGWINSZ, &window) == 0 && window.ws_col > 1)
    fprintf(t->out, "%.*s", window.ws_col - 1, line);  // a second row would not be written over
  else
    fprintf(t->out, t->open_line ? "%s" : "%s\n", line);
  fflush(t->out);
}

// How what lies in a file is read and written.
static void print_file(const shoal_memory_report_t *memory, FILE *out) {
  const long long all = memory->file_copies, direct = memory->direct_copies;
  if (!memory->direct)
    fputs(
        "  file: read and written through the page cache: the file system of the folder has no "
        "direct I/O\n",
        out);
  else if (direct == 0)
    fputs(
        "  file: read and written through the page cache: no copy has the 64 KiB from which "
        "direct I/O is used\n",
        out);
  else if (direct < all)
    fprintf(out, "  file: %lld of %lld copies by direct I/O, which shorter ones do not use\n",
            direct, all);
  else
    fputs("  file: read and written by direct I/O\n", out);
}

static shoal_status_t print_plan(const trainer_t *t, const shoal_train_event_t *event) {
  const char *schedules;
  const shoal_plan_t *plan = shoal_session_plan(event->session);
  const shoal_intent_t *intent = shoal_plan_intent(plan);
  const shoal_program_t *program = shoal_session_program(event->session);
  fprintf(t->out, "model: %lld parameters\n", (long long)shoal_model_parameters(event->model));
  fprintf(t->out, "plan: strategy %s, ranks %d", intent->strategy, program->world);
  for (int64_t i = 0; i < intent->mesh_count; ++i) fprintf(t->out, ", mesh %s", intent->meshes[i]);
  fprintf(t->out, "\n");
  SHOAL_RETURN_IF_ERROR(shoal_plan_explain_schedules(plan, t->arena, &schedules));
  if (schedules[0]) fprintf(t->out, "  %s", schedules);
  SHOAL_RETURN_IF_ERROR(cli_print_approximate(plan, t->arena, t->out));
  for (int64_t i = 0; i < intent->layout_count; ++i)
    fprintf(t->out, "  %s: %s\n", intent->layouts[i].pattern, intent->layouts[i].value);
  for (int64_t c = 0; c < program->class_count; ++c) {
    fputs("  memory: ", t->out);
    cli_print_class(program, c, t->out);
    fputc('\n', t->out);
  }
  fputs("  fixed: ", t->out);
  cli_print_bytes(shoal_session_memory(event->session).fixed, t->out);
  fputs(" on this rank for tables, batches, messages and stacks\n", t->out);
  if (t->command->save_async) {
    fputs("  saving: ", t->out);
    cli_print_bytes(shoal_session_memory(event->session).saving, t->out);
    fputs(" on this rank while a checkpoint is written\n", t->out);
  }
  const shoal_memory_report_t memory = shoal_session_memory(event->session);
  if (memory.arena_planned[SHOAL_MEMORY_FILE] > 0) print_file(&memory, t->out);
  fflush(t->out);
  return NULL;
}

// How images were made ready, which `eval` then does as well.
static shoal_status_t note_images(const trainer_t *t, shoal_session_t *session) {
  const cli_data_options_t *input = &t->command->input;
  if (input->resize > 0) {
    const char *resize = cli_format(t->arena, "%lld", (long long)input->resize);
    if (!resize) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_session_note(session, "shoal_resize", resize));
  }
  if (input->mean) SHOAL_RETURN_IF_ERROR(shoal_session_note(session, "shoal_mean", input->mean));
  if (!input->deviation) return NULL;
  return shoal_session_note(session, "shoal_deviation", input->deviation);
}

// Checkpoints say what they are of: `generate` and `convert` need no name and no sizes then.
static shoal_status_t note_model(const trainer_t *t, shoal_session_t *session) {
  const char *settings = shoal_zoo_settings(t->zoo, t->arena);
  const char *tokenizer = t->command->input.tokenizer;
  char whole[PATH_MAX];  // so that it is found from elsewhere; "bytes" is no path
  if (!settings) return SHOAL_OOM();
  if (tokenizer && realpath(tokenizer, whole)) tokenizer = whole;
  if (tokenizer) SHOAL_RETURN_IF_ERROR(shoal_session_note(session, "shoal_tokenizer", tokenizer));
  SHOAL_RETURN_IF_ERROR(note_images(t, session));
  SHOAL_RETURN_IF_ERROR(shoal_session_note(session, "shoal_model", shoal_zoo_family(t->zoo)->name));
  return shoal_session_note(session, "shoal_settings", settings);
}

static shoal_status_t print_ready(const trainer_t *t, const shoal_train_event_t *event) {
  if (!t->talks) return NULL;
  SHOAL_RETURN_IF_ERROR(note_model(t, event->session));
  cli_say_rebuilt(&t->command->planning, shoal_session_rebuilt_plan(event->session));
  cli_say_cache(shoal_session_cache_note(event->session));
  SHOAL_RETURN_IF_ERROR(cli_say_idle(shoal_session_plan(event->session),
                                     shoal_session_program(event->session)->world, t->arena));
  return print_plan(t, event);
}

// What the steps took, for `shoal simulate --times`.
static shoal_status_t write_times(const trainer_t *t, shoal_session_t *session) {
  const char *text;
  if (!t->command->times_out) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_session_times(session, "train", t->arena, &text));
  if (!t->talks) return NULL;
  return shoal_file_write(t->command->times_out, text, (int64_t)strlen(text));
}

static shoal_status_t hear(void *self, const shoal_train_event_t *event, bool *stop) {
  (void)stop;
  if (event->kind == SHOAL_TRAIN_READY) return print_ready(self, event);
  return event->kind == SHOAL_TRAIN_END ? write_times(self, event->session) : NULL;
}

// How it went.
static void print_report(const trainer_t *t, const shoal_train_report_t *r, bool held_out) {
  const bool trained = r->step > r->start;
  fprintf(t->out, "%sreport: ", t->open_line ? "\n" : "");
  if (trained) fprintf(t->out, "loss %.4f -> %.4f, ", r->first_loss, r->loss);
  if (held_out) {
    for (int64_t i = 0; i < r->metric_count; ++i)
      fprintf(t->out, "%s%s %.4f", i ? ", " : "on held-out data ", r->metrics[i].name,
              r->metrics[i].value);
  } else {
    fprintf(t->out, "%son the next batch %.4f", trained ? "" : "loss ", r->metrics[0].value);
  }
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind) {
    if (kind > 0 && r->memory.arena_planned[kind] == 0) continue;
    const char *name = kind > 0 ? shoal_memory_kind_name((shoal_memory_kind_t)kind) : "";
    fprintf(t->out, "; %s%smemory planned ", name, kind > 0 ? " " : "");
    cli_print_bytes(r->memory.arena_planned[kind], t->out);
    if (r->memory.arena_touched[kind] < 0) continue;
    fputs(", used ", t->out);
    cli_print_bytes(r->memory.arena_touched[kind], t->out);
  }
  if (r->communication > 0)
    fprintf(t->out, "; communication %.3g s, %.0f%% of it hidden", r->communication,
            100 * (1 - r->exposed / r->communication));
  fputc('\n', t->out);
}

// ---- training -------------------------------------------------------------------------

static void build(void *self, shoal_graph_t *graph, const char *phase, int64_t rows) {
  shoal_zoo_build(self, graph, phase, rows);
}

// In the words of the command line.
static shoal_status_t reword(const train_command_t *command, shoal_status_t status) {
  static const char *const hints[][2] = {
      {"holds checkpoints of another run",
       "--resume goes on from the newest, --overwrite removes them, or --save another folder"},
      {"is in use by another run", "wait until it has ended, or --save another folder"},
      {"' is missing", "was it saved from another model? --missing keep leaves such states alone"},
      {"has no state for tensor",
       "was it saved from another model? --extra ignore passes over such tensors"}};
  if (shoal_status_code(status) != SHOAL_INVALID_ARGUMENT) return status;
  for (int i = 0; i < (command->load ? 4 : 2); ++i) {
    if (!strstr(shoal_status_message(status), hints[i][0])) continue;
    shoal_status_t refused =
        SHOAL_ERROR_HINT(INVALID_ARGUMENT, hints[i][1], "%s", shoal_status_message(status));
    shoal_status_free(status);
    return refused;
  }
  return status;
}

// What of the command and of the model checkpoints keep beside the recipe: on --resume, what
// differs is said.
static shoal_status_t list_settings(const trainer_t *t, int64_t batch,
                                    const char *const **out_settings) {
  static const char *const kept[] = {"data",      "kind",      "tokenizer",   "held_out", "test",
                                     "eval_data", "flip",      "random_crop", "pad",      "resize",
                                     "mean",      "deviation", "last_batch",  "mixed"};
  enum { KEPT = sizeof kept / sizeof *kept };
  const shoal_zoo_family_t *family = shoal_zoo_family(t->zoo);
  const char **words = SHOAL_NEW(t->arena, const char *, KEPT + family->setting_count + 1);
  int64_t count = 0;
  for (int64_t i = 0; i < TABLE_COUNT && words; ++i) {
    bool keeps = false;
    for (int k = 0; k < KEPT; ++k) keeps = keeps || strcmp(kept[k], table[i].name) == 0;
    if (keeps) words[count++] = cli_option_word(&table[i], t->command, t->arena);
  }
  for (int64_t i = 0; i < family->setting_count && words; ++i) {
    const char *name = family->settings[i].name, *value = shoal_zoo_setting(t->zoo, name, t->arena);
    words[count++] = value ? cli_format(t->arena, "%s=%s", name, value) : NULL;
  }
  for (int64_t i = 0; i < count; ++i)
    if (!words[i]) return SHOAL_OOM();
  if (!words) return SHOAL_OOM();
  return cli_recipe_settings(&t->model, batch, words, t->arena, out_settings);
}

// What the devices of all ranks can do together: as the described cluster has it, else measured.
static shoal_status_t find_peak(const cli_plan_options_t *planning, shoal_world_t *world,
                                const shoal_zoo_t *zoo, double *out_flops) {
  shoal_cluster_t *cluster;
  shoal_dtype_t dtype;
  if (!shoal_dtype_parse(shoal_zoo_setting(zoo, "dtype", NULL), &dtype)) return NULL;
  if (!planning->cluster) {
    shoal_status_t status = cli_peak_measure(dtype, out_flops);
    *out_flops *= shoal_world_size(world);
    return status;
  }
  SHOAL_RETURN_IF_ERROR(shoal_cluster_read(planning->cluster, shoal_allocator_system(), &cluster));
  for (int32_t rank = 0; rank < shoal_world_size(world); ++rank)
    *out_flops += shoal_cluster_device(cluster, rank)->flops[dtype];
  shoal_cluster_free(cluster);
  return NULL;
}

// The model, with the settings of the checkpoint whose weights it will have.
static shoal_status_t make_model(trainer_t *t, shoal_train_options_t *o) {
  const train_command_t *command = t->command;
  cli_past_t past = {0};
  if (command->resume) SHOAL_RETURN_IF_ERROR(cli_past_latest(command->save, t->arena, &past));
  const bool resumes = past.path != NULL;
  if (command->load && !resumes) {
    SHOAL_RETURN_IF_ERROR(cli_past_open(command->load, t->arena, &past));
    o->load = past.path;
    o->load_options = (shoal_load_options_t){.cast = true,
                                             .averages = !command->raw,
                                             .keep_missing = command->missing == PASS,
                                             .ignore_extra = command->extra == PASS};
  }
  SHOAL_RETURN_IF_ERROR(cli_past_know(&past, t->name, &t->model));
  SHOAL_RETURN_IF_ERROR(cli_zoo_create(t->name, &t->model, NULL, &t->zoo));
  o->build_self = t->zoo;
  o->batch = shoal_zoo_rows(t->zoo);
  return cli_past_check(&past, t->name, t->zoo, !resumes, t->arena);
}

// A schedule of as many steps as the epochs have, which the data tells.
static shoal_status_t make_schedule(trainer_t *t, shoal_train_options_t *o) {
  cli_recipe_options_t *recipe = &t->model.recipe;
  if (!recipe->lr_schedule || recipe->lr_schedule_steps > 0 || t->command->epochs == 0) return NULL;
  cli_recipe_end(recipe, shoal_train_steps(o));
  shoal_zoo_free(t->zoo);
  SHOAL_RETURN_IF_ERROR(cli_zoo_create(t->name, &t->model, NULL, &t->zoo));
  o->build_self = t->zoo;
  return NULL;
}

static shoal_status_t train(trainer_t *t, shoal_world_t *world, shoal_train_options_t *o) {
  const train_command_t *command = t->command;
  shoal_train_report_t report;
  SHOAL_RETURN_IF_ERROR(cli_session_options(&command->planning, world, t->arena, &o->parallelize));
  o->parallelize.opaque = command->opaque;
  o->parallelize.offload_dir = command->offload_dir;
  o->parallelize.dry_run = command->dry_run;
  o->parallelize.timed = command->times_out != NULL;
  o->seed = (uint64_t)command->model.seed;
  o->mixed = command->model.mixed;
  SHOAL_RETURN_IF_ERROR(make_model(t, o));
  if (!command->dry_run && command->steps != 0)
    SHOAL_RETURN_IF_ERROR(find_peak(&command->planning, world, t->zoo, &o->peak_flops));
  if (!command->dry_run || command->epochs > 0)
    SHOAL_RETURN_IF_ERROR(
        cli_data_open(t->zoo, &command->input, o->seed, t->arena, &o->data, &o->eval_data));
  SHOAL_RETURN_IF_ERROR(make_schedule(t, o));
  SHOAL_RETURN_IF_ERROR(list_settings(t, o->batch, &o->settings));
  o->in_order = !command->input.data;
  o->eval_next = !o->eval_data;
  SHOAL_RETURN_IF_ERROR(reword(command, shoal_train(o, &report)));
  if (t->talks && !command->dry_run) print_report(t, &report, o->eval_data != NULL);
  return NULL;
}

typedef struct train_job {
  const train_command_t *command;
  const char *name;
  FILE *out;
} train_job_t;

static shoal_status_t train_rank(void *self, shoal_world_t *world, int32_t rank) {
  const train_job_t *job = self;
  const train_command_t *command = job->command;
  trainer_t t = {.command = command,
                 .name = job->name,
                 .model = command->model,
                 .out = job->out,
                 .talks = rank == 0};
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(shoal_allocator_system(), &t.arena));
  const char **watch = SHOAL_NEW(t.arena, const char *, command->watch.count + 1);
  for (int64_t i = 0; i < command->watch.count && watch; ++i) watch[i] = command->watch.items[i];
  shoal_train_options_t options = {
      .build = build,
      .last_batch = (shoal_last_batch_t)command->last_batch,
      .steps = command->steps > 0   ? command->steps
               : command->steps < 0 ? 0
                                    : -1,
      .epochs = command->epochs,
      .eval_every = command->eval_every,
      .eval_samples = command->eval_samples,
      .lr = command->model.lr,
      .folder = command->save,
      .save_every = command->save_every,
      .save_async = command->save_async,
      .keep = command->keep,
      .best = command->best,
      .resume = command->resume,
      .overwrite = command->overwrite,
      .log_every = command->log_every > 0 ? command->log_every : 1,
      .log = print_line,
      .log_self = &t,
      .metrics = command->metrics,
      .tensorboard = command->tensorboard,
      .watch = command->watch.count ? watch : NULL,
      .check_nan = command->check_nan,
      .hook = hear,
      .hook_self = &t,
  };
  shoal_status_t status = watch ? train(&t, world, &options) : SHOAL_OOM();
  if (t.open_line) fputc('\n', t.out);
  shoal_dataset_free(options.data);
  shoal_dataset_free(options.eval_data);
  shoal_zoo_free(t.zoo);
  shoal_arena_free(t.arena);
  return status;
}

// ---- the command ----------------------------------------------------------------------

// Found out now, not after the last step.
static shoal_status_t check_writable(const char *path) {
  char folder[4096] = ".";
  const char *slash = path ? strrchr(path, '/') : NULL;
  if (!path) return NULL;
  if (slash) snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  if (access(access(path, F_OK) == 0 ? path : folder, W_OK) == 0) return NULL;
  return SHOAL_ERROR(IO, "cannot write '%s': %s", path, strerror(errno));
}

static shoal_status_t check_counts(const train_command_t *c) {
  const int64_t counts[] = {c->log_every,  c->save_every,   c->keep,
                            c->eval_every, c->eval_samples, c->epochs};
  static const char *const names[] = {"--log-every",  "--save-every",   "--keep",
                                      "--eval-every", "--eval-samples", "--epochs"};
  static const char *const units[] = {"steps", "steps",   "checkpoints",
                                      "steps", "samples", "epochs"};
  for (int i = 0; i < 6; ++i)
    if (counts[i] < 0)
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s %lld: a number of %s is not negative", names[i],
                         (long long)counts[i], units[i]);
  return NULL;
}

// An option that nothing looks at would be thought to work.
static shoal_status_t check_used(const train_command_t *c) {
  const bool evaluates = c->input.held_out != 0 || c->input.eval_data;
  const cli_recipe_options_t *recipe = &c->model.recipe;
  const char *optimizer = c->model.sgd ? "sgd" : recipe->optimizer ? recipe->optimizer : "adamw";
  const bool no_eps =
      !recipe->group.count && (strcmp(optimizer, "sgd") == 0 || strcmp(optimizer, "lion") == 0);
  const struct {
    bool in_vain;
    const char *name, *hint;
  } rows[] = {{c->save_every > 0 && !c->save, "--save-every", "--save DIR"},
              {c->save_async && !c->save, "--save-async", "--save DIR"},
              {c->keep != KEEP && !c->save, "--keep", "--save DIR"},
              {c->model.eps != 0 && no_eps, "--eps", "sgd and lion have none: --optimizer adamw"},
              {c->input.test && !c->input.data, "--test", "--data DIR"},
              {c->input.kind && !c->input.data, "--kind", "--data FILE"},
              {c->input.tokenizer && !c->input.data, "--tokenizer", "--data FILE"},
              {c->missing && !c->load, "--missing", "--load CHECKPOINT"},
              {c->extra && !c->load, "--extra", "--load CHECKPOINT"},
              {c->raw && !c->load, "--raw", "--load CHECKPOINT"},
              {c->eval_every > 0 && !evaluates, "--eval-every", "--held-out 0.1, or --eval-data"},
              {c->eval_samples > 0 && !evaluates, "--eval-samples", "--held-out, or --eval-data"},
              {c->best && !evaluates, "--best", "--held-out 0.1, or --eval-data FILE"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    if (rows[i].in_vain)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, rows[i].hint, "%s has no effect alone",
                              rows[i].name);
  return NULL;
}

// What can be known before any rank starts. Steps are negative where none were given.
static shoal_status_t check_command(train_command_t *command, bool steps_given) {
  if (steps_given && command->steps < 0)
    return SHOAL_ERROR(INVALID_ARGUMENT, "--steps %lld: a number of steps is not negative",
                       (long long)command->steps);
  SHOAL_RETURN_IF_ERROR(check_counts(command));
  if (command->resume && !command->save)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--save DIR",
                            "--resume needs the folder of the checkpoints");
  if (command->best && !command->save)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--save DIR",
                            "--best needs the folder of the checkpoints");
  if (command->overwrite && (command->resume || !command->save))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, command->resume ? "give one of them" : "--save DIR",
                            command->resume ? "--overwrite removes what --resume goes on from"
                                            : "--overwrite needs the folder of the checkpoints");
  SHOAL_RETURN_IF_ERROR(check_used(command));
  SHOAL_RETURN_IF_ERROR(check_writable(command->times_out));
  if (!steps_given && command->epochs == 0) command->steps = 200;
  if (command->steps > 0 && !command->epochs)
    cli_recipe_end(&command->model.recipe, command->steps);
  return cli_plan_check(&command->planning);
}

const shoal_option_t *cli_train_options(int64_t *out_count) {
  *out_count = TABLE_COUNT;
  return table;
}

shoal_status_t cli_train(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  train_command_t command = {.steps = INT64_MIN};
  shoal_words_t words = {0};
  shoal_status_t status =
      cli_options("train", "MODEL", table, TABLE_COUNT, argc, argv, arena, &command, &words, out);
  if (!status && !command.help) status = cli_one_model(&words);
  if (!status && !command.help) status = check_command(&command, command.steps != INT64_MIN);
  if (!status && !command.help) {
    train_job_t job = {&command, words.items[0], out};
    const cli_ranks_t ranks = {command.planning.ranks, cli_ranks_given(argc, argv),
                               command.threads};
    cli_interrupt_watch();
    status = cli_ranks_run(&ranks, train_rank, &job);
  }
  return status;
}
