// `shoal train MODEL`: trains a zoo model on local ranks - threads or processes of this machine, or
// the ranks a launcher made - with progress, a report and checkpoints.
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "interrupt.h"
#include "models.h"
#include "planning.h"
#include "print.h"
#include "ranks.h"
#include "shoal/checkpoint.h"
#include "shoal/session.h"
#include "source.h"

typedef struct train_command {
  cli_model_options_t model;
  cli_plan_options_t planning;
  int64_t steps, log_every, save_every, keep;
  const char *data, *save, *times_out, *offload_dir;
  bool resume, overwrite, threads, opaque, dry_run, help;
} train_command_t;

static const shoal_option_t table[] = {
    SHOAL_OPTION(train_command_t, INT, steps, "200", "steps to train"),
    SHOAL_OPTION(train_command_t, STRING, data, NULL, "text to learn from (gpt)"),
    SHOAL_OPTION(train_command_t, INT, log_every, "20", "steps between progress lines"),
    SHOAL_OPTION(train_command_t, STRING, save, NULL,
                 "folder for checkpoints step-N; also on SIGTERM, SIGINT"),
    SHOAL_OPTION(train_command_t, INT, save_every, NULL,
                 "steps between checkpoints (0: only at the end)"),
    SHOAL_OPTION(train_command_t, INT, keep, "3", "checkpoints to keep (0: all)"),
    SHOAL_OPTION(train_command_t, BOOL, resume, NULL, "go on from the newest checkpoint"),
    SHOAL_OPTION(train_command_t, BOOL, overwrite, NULL,
                 "start anew in a folder with checkpoints: removes them"),
    SHOAL_OPTION(train_command_t, BOOL, threads, NULL, "ranks are threads, not processes",
                 .no_environment = true),
    SHOAL_OPTION(train_command_t, BOOL, opaque, NULL,
                 "device memory that the host cannot read, like a GPU's"),
    SHOAL_OPTION(train_command_t, STRING, times_out, NULL,
                 "measure instructions and links, for `simulate --times`; file to write them to"),
    SHOAL_OPTION(train_command_t, STRING, offload_dir, NULL,
                 "folder for what the plan keeps in files (TMPDIR, or /tmp)"),
    SHOAL_OPTION(train_command_t, BOOL, dry_run, NULL,
                 "plan the model and check the program, then stop"),
    CLI_PLAN_OPTIONS(train_command_t),
    CLI_MODEL_OPTIONS(train_command_t),
    SHOAL_OPTION(train_command_t, BOOL, help, NULL, "this list")};
#define TABLE_COUNT ((int64_t)(sizeof table / sizeof table[0]))

// One rank's training; `talks` on rank 0.
typedef struct trainer {
  const train_command_t *command;
  shoal_model_t *model;
  shoal_session_t *session;
  cli_source_t *source;
  shoal_arena_t *arena;
  FILE *out;
  bool talks;
  bool trained;  // at least one step: there are losses
  double first_loss, loss;
} trainer_t;

static shoal_status_t fetch_loss(trainer_t *t, const char *graph, double *out_loss) {
  shoal_type_t type;
  if (!shoal_graph_output_type(shoal_model_find_graph(t->model, graph), "loss", &type))
    return SHOAL_ERROR(NOT_FOUND, "graph '%s' has no output 'loss'", graph);
  uint64_t storage = 0;
  SHOAL_RETURN_IF_ERROR(shoal_fetch(t->session, "loss", &storage, shoal_dtype_size(type.dtype)));
  *out_loss = shoal_dtype_load(type.dtype, &storage, 0);
  return NULL;
}

static shoal_status_t print_plan(const trainer_t *t) {
  const char *schedules;
  const shoal_intent_t *intent = shoal_plan_intent(shoal_session_plan(t->session));
  const shoal_program_t *program = shoal_session_program(t->session);
  fprintf(t->out, "model: %lld parameters\n", (long long)shoal_model_parameters(t->model));
  fprintf(t->out, "plan: strategy %s, ranks %d", intent->strategy, program->world);
  for (int64_t i = 0; i < intent->mesh_count; ++i) fprintf(t->out, ", mesh %s", intent->meshes[i]);
  fprintf(t->out, "\n");
  SHOAL_RETURN_IF_ERROR(
      shoal_plan_explain_schedules(shoal_session_plan(t->session), t->arena, &schedules));
  if (schedules[0]) fprintf(t->out, "  %s", schedules);
  for (int64_t i = 0; i < intent->layout_count; ++i)
    fprintf(t->out, "  %s: %s\n", intent->layouts[i].pattern, intent->layouts[i].value);
  for (int64_t c = 0; c < program->class_count; ++c) {
    fputs("  memory: ", t->out);
    cli_print_class(program, c, t->out);
    fputc('\n', t->out);
  }
  fputs("  fixed: ", t->out);
  cli_print_bytes(shoal_session_memory(t->session).fixed, t->out);
  fputs(" on this rank for tables, batches, messages and stacks\n", t->out);
  fflush(t->out);
  return NULL;
}

// ---- checkpoints ----------------------------------------------------------------------

// Before any work: rank 0 sees whether it will be able to save, and whether it may.
static shoal_status_t prepare_folder(const trainer_t *t, shoal_world_t *world) {
  const train_command_t *command = t->command;
  if (!command->save || command->dry_run) return NULL;
  shoal_status_t status = NULL;
  if (t->talks)
    status = shoal_checkpoint_prepare(command->save, command->resume || command->overwrite,
                                      shoal_allocator_system());
  if (shoal_status_code(status) == SHOAL_INVALID_ARGUMENT) {
    shoal_status_t refused = SHOAL_ERROR_HINT(
        INVALID_ARGUMENT,
        "--resume goes on from the newest, --overwrite removes them, or --save another folder",
        "%s", shoal_status_message(status));
    shoal_status_free(status);
    status = refused;
  }
  return shoal_world_agree(world, status);
}

static shoal_status_t overwrite(const trainer_t *t) {
  if (!t->command->overwrite) return NULL;
  shoal_status_t status = NULL;
  if (t->talks) status = shoal_checkpoint_clear(t->command->save, shoal_allocator_system());
  return shoal_world_agree(shoal_session_world(t->session), status);
}

static shoal_status_t save(trainer_t *t, int64_t step) {
  const train_command_t *command = t->command;
  if (!command->save) return NULL;
  char *path = cli_format(t->arena, "%s/step-%lld", command->save, (long long)step);
  if (!path) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_save(t->session, path));
  if (!t->talks) return NULL;
  fprintf(t->out, "saved %s\n", path);
  return shoal_checkpoint_prune(command->save, command->keep, shoal_allocator_system());
}

// A checkpoint has the learning rate it was trained with; one that is given goes before it.
static shoal_status_t give_rate(trainer_t *t) {
  const float given = (float)t->command->model.lr;
  float saved = 0;
  if (given == 0) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_session_get(t->session, "lr", &saved, sizeof saved));
  if (saved == given) return NULL;
  if (t->talks)
    fprintf(t->out, "learning rate %g; the checkpoint's was %g\n", (double)given, (double)saved);
  return shoal_session_set(t->session, "lr", &given, sizeof given);
}

static shoal_status_t resume(trainer_t *t, int64_t *out_step) {
  const char *path = NULL;
  *out_step = 0;
  if (!t->command->resume) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_checkpoint_latest(t->command->save, t->arena, &path, out_step));
  if (!path) {
    *out_step = 0;
    if (t->talks) fprintf(t->out, "nothing to resume in %s: from the start\n", t->command->save);
    return NULL;
  }
  SHOAL_RETURN_IF_ERROR(shoal_load(t->session, path));
  if (t->talks) fprintf(t->out, "resumed from %s\n", path);
  return give_rate(t);
}

// Returned by all ranks, which saved together: a signal ends training with the same code however
// the ranks run.
static shoal_status_t stopped(const trainer_t *t, int64_t step) {
  const char *folder = t->command->save;
  if (folder)
    return SHOAL_ERROR_HINT(ABORTED, "--resume goes on from it",
                            "stopped by a signal at step %lld; saved %s/step-%lld", (long long)step,
                            folder, (long long)step);
  return SHOAL_ERROR_HINT(ABORTED, "--save DIR",
                          "stopped by a signal at step %lld; nothing was saved", (long long)step);
}

// ---- training -------------------------------------------------------------------------

typedef struct progress {
  int64_t step, time;  // of the last line
} progress_t;

static void print_progress(trainer_t *t, int64_t step, progress_t *last) {
  const int64_t now = cli_time_ns();
  const double rate = (double)((step - last->step) * cli_source_count(t->source)) /
                      ((double)(now - last->time) * 1e-9);
  fprintf(t->out, "step %lld loss %.4f %s/s %.0f\n", (long long)step, t->loss,
          cli_source_unit(t->source), rate);
  fflush(t->out);
  *last = (progress_t){step, now};
}

// Steps whose loss nobody looks at are not waited for: the next one is fed meanwhile.
static shoal_status_t train_steps(trainer_t *t, int64_t start, int64_t *out_step) {
  const train_command_t *command = t->command;
  const int64_t every = command->log_every > 0 ? command->log_every : 1;
  progress_t last = {start, cli_time_ns()};
  for (int64_t step = start + 1; step <= command->steps; ++step) {
    SHOAL_RETURN_IF_ERROR(cli_source_feed(t->source, step - 1, t->session));
    SHOAL_RETURN_IF_ERROR(shoal_run(t->session, "train"));
    *out_step = step;
    const bool stops = shoal_session_should_stop(t->session);
    const bool saves =
        command->save_every > 0 && step % command->save_every == 0 && step < command->steps;
    const bool logs = step % every == 0 || step == start + 1 || step == command->steps;
    if (!logs && !saves && !stops) continue;
    SHOAL_RETURN_IF_ERROR(fetch_loss(t, "train", &t->loss));
    if (!t->trained) t->first_loss = t->loss;
    t->trained = true;
    if (!isfinite(t->loss))
      return SHOAL_ERROR_HINT(MISMATCH, "lower --lr", "the loss is %g at step %lld", t->loss,
                              (long long)step);
    if (t->talks && logs) print_progress(t, step, &last);
    if (stops) return NULL;
    if (saves) SHOAL_RETURN_IF_ERROR(save(t, step));
  }
  return NULL;
}

// How it went; `next` is the number of the batch that training would take next.
static shoal_status_t report(trainer_t *t, int64_t next) {
  double loss = 0;
  const bool evaluated = shoal_model_find_graph(t->model, "eval") != NULL;
  if (evaluated) {
    SHOAL_RETURN_IF_ERROR(cli_source_feed(t->source, next, t->session));
    SHOAL_RETURN_IF_ERROR(shoal_run(t->session, "eval"));
    SHOAL_RETURN_IF_ERROR(fetch_loss(t, "eval", &loss));
  }
  shoal_memory_report_t memory = shoal_session_memory(t->session);
  if (!t->talks) return NULL;
  fprintf(t->out, "report: ");
  if (t->trained) fprintf(t->out, "loss %.4f -> %.4f, ", t->first_loss, t->loss);
  if (evaluated) fprintf(t->out, "%son the next batch %.4f", t->trained ? "" : "loss ", loss);
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind) {
    if (kind > 0 && memory.arena_planned[kind] == 0) continue;
    const char *name = kind > 0 ? shoal_memory_kind_name((shoal_memory_kind_t)kind) : "";
    fprintf(t->out, "%s%s%smemory planned ", evaluated || kind > 0 ? "; " : "", name,
            kind > 0 ? " " : "");
    cli_print_bytes(memory.arena_planned[kind], t->out);
    if (memory.arena_touched[kind] < 0) continue;
    fputs(", used ", t->out);
    cli_print_bytes(memory.arena_touched[kind], t->out);
  }
  fputc('\n', t->out);
  return NULL;
}

// What the steps took, for `shoal simulate --times`.
static shoal_status_t write_times(trainer_t *t) {
  const char *text;
  if (!t->command->times_out) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_session_times(t->session, "train", t->arena, &text));
  if (!t->talks) return NULL;
  return shoal_file_write(t->command->times_out, text, (int64_t)strlen(text));
}

static shoal_status_t train(trainer_t *t, shoal_world_t *world, const char *name) {
  const train_command_t *command = t->command;
  const cli_plan_options_t *planning = &command->planning;
  shoal_parallelize_options_t options = {.world = world,
                                         .strategy = planning->strategy,
                                         .mesh = planning->mesh,
                                         .cluster = planning->cluster,
                                         .cache = cli_cache(planning, t->arena),
                                         .opaque = command->opaque,
                                         .offload_dir = command->offload_dir,
                                         .dry_run = command->dry_run,
                                         .timed = command->times_out != NULL};
  int64_t size = 0, start = 0, step = 0;
  SHOAL_RETURN_IF_ERROR(prepare_folder(t, world));
  SHOAL_RETURN_IF_ERROR(
      cli_model_create(name, &command->model, shoal_allocator_system(), &t->model));
  if (planning->plan)
    SHOAL_RETURN_IF_ERROR(shoal_file_read(planning->plan, t->arena, &options.plan, &size));
  SHOAL_RETURN_IF_ERROR(
      cli_layouts_parse(planning->layouts, t->arena, &options.layout_count, &options.layouts));
  SHOAL_RETURN_IF_ERROR(cli_decisions_parse(&planning->decide, t->arena, &options.decision_count,
                                            &options.decisions));
  if (!command->dry_run)
    SHOAL_RETURN_IF_ERROR(
        cli_source_open(t->model, command->data, (uint64_t)command->model.model_seed, &t->source));
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(t->model, &options, &t->session));
  if (t->talks) cli_say_rebuilt(planning, shoal_session_rebuilt_plan(t->session));
  if (t->talks) cli_say_cache(shoal_session_cache_note(t->session));
  if (t->talks) SHOAL_RETURN_IF_ERROR(print_plan(t));
  if (command->dry_run) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_session_catch_signals(t->session));
  SHOAL_RETURN_IF_ERROR(resume(t, &start));
  SHOAL_RETURN_IF_ERROR(overwrite(t));
  step = start;
  SHOAL_RETURN_IF_ERROR(train_steps(t, start, &step));
  SHOAL_RETURN_IF_ERROR(save(t, step));
  SHOAL_RETURN_IF_ERROR(write_times(t));
  return shoal_session_should_stop(t->session) ? stopped(t, step) : report(t, step);
}

typedef struct train_job {
  const train_command_t *command;
  const char *name;
  FILE *out;
} train_job_t;

static shoal_status_t train_rank(void *self, shoal_world_t *world, int32_t rank) {
  const train_job_t *job = self;
  trainer_t t = {.command = job->command, .out = job->out, .talks = rank == 0};
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(shoal_allocator_system(), &t.arena));
  shoal_status_t status = train(&t, world, job->name);
  shoal_session_free(t.session);
  cli_source_close(t.source);
  shoal_model_free(t.model);
  shoal_arena_free(t.arena);
  return status;
}

// Found out now, not after the last step.
static shoal_status_t check_writable(const char *path) {
  char folder[4096] = ".";
  const char *slash = path ? strrchr(path, '/') : NULL;
  if (!path) return NULL;
  if (slash) snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  if (access(access(path, F_OK) == 0 ? path : folder, W_OK) == 0) return NULL;
  return SHOAL_ERROR(IO, "cannot write '%s': %s", path, strerror(errno));
}

// What can be known before any rank starts.
static shoal_status_t check_command(const train_command_t *command) {
  const int64_t counts[] = {command->steps, command->log_every, command->save_every, command->keep};
  static const char *const names[] = {"--steps", "--log-every", "--save-every", "--keep"};
  for (int i = 0; i < 4; ++i)
    if (counts[i] < 0)
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s %lld: a number of %s is not negative", names[i],
                         (long long)counts[i], i < 3 ? "steps" : "checkpoints");
  if (command->resume && !command->save)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--save DIR",
                            "--resume needs the folder of the checkpoints");
  if (command->overwrite && (command->resume || !command->save))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, command->resume ? "give one of them" : "--save DIR",
                            command->resume ? "--overwrite removes what --resume goes on from"
                                            : "--overwrite needs the folder of the checkpoints");
  SHOAL_RETURN_IF_ERROR(check_writable(command->times_out));
  return cli_plan_check(&command->planning);
}

shoal_status_t cli_train(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  train_command_t command = {0};
  shoal_words_t words = {0};
  shoal_status_t status =
      cli_options("train", "MODEL", table, TABLE_COUNT, argc, argv, arena, &command, &words, out);
  if (!status && !command.help) status = cli_one_model(&words);
  if (!status && !command.help) status = check_command(&command);
  if (!status && !command.help) {
    train_job_t job = {&command, words.items[0], out};
    const cli_ranks_t ranks = {command.planning.ranks, cli_ranks_given(argc, argv),
                               command.threads};
    cli_interrupt_watch();
    status = cli_ranks_run(&ranks, train_rank, &job);
  }
  return status;
}
