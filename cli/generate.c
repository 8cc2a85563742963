// `shoal generate MODEL`: continues prompts with a decoder of the zoo and writes the text as it
// comes, on one rank or several.
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "past.h"
#include "planning.h"
#include "print.h"
#include "ranks.h"
#include "shoal/checkpoint.h"
#include "shoal/generate.h"
#include "shoal/tokenizer.h"
#include "stream.h"

typedef struct generate_command {
  cli_model_options_t model;
  cli_plan_options_t planning;
  shoal_words_t prompt, stop;
  const char *prompts, *load, *tokenizer;
  int64_t max_tokens, top_k;
  double temperature, top_p, repetition;
  bool raw, threads, help;
} generate_command_t;

static const shoal_option_t table[] = {
    SHOAL_OPTION(generate_command_t, STRING, load, NULL,
                 "checkpoint with the weights: a folder, a folder of step-N, or a file",
                 .argument = "DIR"),
    SHOAL_OPTION(generate_command_t, BOOL, raw, NULL, CLI_RAW_HELP),
    SHOAL_OPTION(generate_command_t, STRINGS, prompt, NULL, "text to continue; may be repeated",
                 .no_environment = true),
    SHOAL_OPTION(generate_command_t, STRING, prompts, NULL,
                 "file of texts to continue, a line each; blank lines stay blank",
                 .argument = "FILE"),
    SHOAL_OPTION(generate_command_t, STRING, tokenizer, NULL,
                 "folder or file of a tokenizer, or bytes; by default the checkpoint's, else bytes",
                 .argument = "FILE"),
    SHOAL_OPTION(generate_command_t, INT, max_tokens, "64", "tokens behind a prompt",
                 .positive = true),
    SHOAL_OPTION(generate_command_t, REAL, temperature, "1", "0: the likeliest token each time"),
    SHOAL_OPTION(generate_command_t, INT, top_k, NULL,
                 "only the k likeliest tokens; 0: all (experts: --set top_k=)",
                 .no_environment = true),  // SHOAL_TOP_K is the experts' of `train`
    SHOAL_OPTION(generate_command_t, REAL, top_p, NULL,
                 "only the likeliest tokens that make up this share; 0: all"),
    SHOAL_OPTION(generate_command_t, REAL, repetition, NULL,
                 "above 1: tokens that are there already become less likely"),
    CLI_MODEL_OPTION(generate_command_t, INT, seed, NULL, "another number, another text"),
    SHOAL_OPTION(generate_command_t, STRINGS, stop, NULL,
                 "text of a token that ends; may be repeated", .no_environment = true),
    CLI_MODEL_OPTIONS(generate_command_t),
    CLI_PLAN_OPTIONS(generate_command_t),
    SHOAL_OPTION(generate_command_t, BOOL, threads, NULL, "ranks are threads, not processes",
                 .no_environment = true),
    SHOAL_OPTION(generate_command_t, BOOL, help, NULL, "this list")};
#define TABLE_COUNT ((int64_t)(sizeof table / sizeof table[0]))

enum { MOST_ROWS = 16, MOST_STOPS = 64 };  // prompts that are continued together; --stop

typedef struct writer {
  const generate_command_t *command;
  const char *name, *load;  // of the model; where the weights are
  bool talks;               // this is rank 0
  FILE *out;
  shoal_arena_t *arena;
  shoal_tokenizer_t *tokenizer;
  shoal_decoder_t *decoder;
  shoal_zoo_t *zoo;
  shoal_model_t *model;
  shoal_session_t *session;
  int64_t count;  // prompts
  shoal_tokens_t *prompts;
  int64_t line_count;  // texts; those that are empty, blank lines of a file, are no prompts
  const char **texts;
  int32_t stops[MOST_STOPS];
  int64_t stop_count;
  cli_stream_t stream;   // rank 0
  shoal_status_t error;  // of the callback
} writer_t;

// ---- prompts --------------------------------------------------------------------------

static shoal_status_t add_line(writer_t *w, const char *line, size_t length) {
  if (memchr(line, 0, length)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' has a zero byte in line %lld: it is no text",
                       w->command->prompts,
                       (long long)(w->line_count - w->command->prompt.count + 1));
  }
  if (length > 0 && line[length - 1] == '\r') --length;
  const char *text = cli_format(w->arena, "%.*s", (int)length, line);
  if (!text) return SHOAL_OOM();
  w->texts[w->line_count++] = text;
  w->count += length > 0;
  return NULL;
}

static shoal_status_t read_texts(writer_t *w) {
  const generate_command_t *command = w->command;
  const char *data = NULL;
  int64_t size = 0, lines = 0;
  if (command->prompts) {
    SHOAL_RETURN_IF_ERROR(shoal_file_read(command->prompts, w->arena, &data, &size));
    for (int64_t i = 0; i < size; ++i) lines += data[i] == '\n';
    lines += size > 0 && data[size - 1] != '\n';
  }
  w->texts = SHOAL_NEW(w->arena, const char *, command->prompt.count + lines);
  if (!w->texts) return SHOAL_OOM();
  for (int64_t i = 0; i < command->prompt.count; ++i, ++w->count) {
    if (!command->prompt.items[i][0])
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "a text of one character will do",
                              "--prompt is empty: there is nothing to continue");
    w->texts[w->line_count++] = command->prompt.items[i];
  }
  for (const char *at = data; lines > 0; --lines) {
    const char *last = data + size, *end = memchr(at, '\n', (size_t)(last - at));
    if (!end) end = last;
    SHOAL_RETURN_IF_ERROR(add_line(w, at, (size_t)(end - at)));
    at = end + 1;
  }
  if (w->count > 0) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--prompt TEXT, or --prompts FILE",
                          "there is no text to continue");
}

static shoal_status_t encode(writer_t *w) {
  w->prompts = SHOAL_NEW(w->arena, shoal_tokens_t, w->count);
  if (!w->prompts) return SHOAL_OOM();
  int64_t prompt = 0;
  for (int64_t i = 0; i < w->line_count; ++i) {
    const int32_t *ids;
    int64_t count;
    if (!w->texts[i][0]) continue;
    SHOAL_RETURN_IF_ERROR(shoal_tokenizer_encode(w->tokenizer, w->texts[i], -1,
                                                 &(shoal_encode_options_t){.add_special = true},
                                                 &ids, &count));
    int32_t *copy = SHOAL_NEW(w->arena, int32_t, count);
    if (!copy) return SHOAL_OOM();
    memcpy(copy, ids, (size_t)count * sizeof *copy);
    w->prompts[prompt++] = (shoal_tokens_t){copy, count};
  }
  const int32_t end = shoal_tokenizer_end(w->tokenizer);
  if (end >= 0) w->stops[w->stop_count++] = end;
  for (int64_t i = 0; i < w->command->stop.count; ++i) {
    const char *text = w->command->stop.items[i];
    const int32_t token = shoal_tokenizer_find(w->tokenizer, text, (int64_t)strlen(text));
    if (token < 0 || w->stop_count == MOST_STOPS) {
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         token < 0 ? "--stop '%s' is no token"
                                   : "--stop '%s': "
                                     "that are too many",
                         text);
    }
    w->stops[w->stop_count++] = token;
  }
  return NULL;
}

// The folder of the weights, whose tokenizer is theirs.
static const char *weights_folder(const writer_t *w) {
  struct stat info;
  if (stat(w->load, &info) != 0 || S_ISDIR(info.st_mode)) return w->load;
  const char *slash = strrchr(w->load, '/');
  return slash
             ? cli_format(w->arena, "%.*s", slash == w->load ? 1 : (int)(slash - w->load), w->load)
             : ".";
}

// Bytes are the tokens of a model that knows as many, and of no other.
static shoal_status_t check_bytes(const writer_t *w) {
  const char *vocabulary = shoal_zoo_setting(w->zoo, "vocabulary", w->arena);
  if (!vocabulary || strcmp(vocabulary, "256") == 0) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "--tokenizer PATH, or --tokenizer bytes",
                          "the model knows %s tokens, and there is no tokenizer%s%s", vocabulary,
                          w->load ? " in " : "", w->load ? w->load : "");
}

// As named, else beside the weights, else what training had read with.
static shoal_status_t open_tokenizer(writer_t *w) {
  const char *path = w->command->tokenizer;
  if (!path && w->load) {
    path = weights_folder(w);
    if (!path) return SHOAL_OOM();
    shoal_status_t status = shoal_tokenizer_open(path, NULL, &w->tokenizer);
    if (shoal_status_code(status) != SHOAL_NOT_FOUND) return status;
    shoal_status_free(status);
    SHOAL_RETURN_IF_ERROR(shoal_checkpoint_note(w->load, "shoal_tokenizer", w->arena, &path));
  }
  if (path) return shoal_tokenizer_open(path, NULL, &w->tokenizer);
  SHOAL_RETURN_IF_ERROR(check_bytes(w));
  return shoal_tokenizer_open("bytes", NULL, &w->tokenizer);
}

// ---- the model ------------------------------------------------------------------------

static shoal_status_t find_weights(writer_t *w) {
  w->load = w->command->load;
  if (!w->load) return NULL;
  const char *latest;
  int64_t step;
  shoal_status_t status = shoal_checkpoint_latest(w->load, w->arena, &latest, &step);
  if (status) {  // a file
    shoal_status_free(status);
    return NULL;
  }
  if (latest) w->load = latest;
  return NULL;
}

// Weights by other names are said to be such, rather than to lack a model.
static shoal_status_t check_names(const writer_t *w) {
  struct stat info;
  const char *folder = weights_folder(w);
  const char *config = folder ? cli_format(w->arena, "%s/config.json", folder) : NULL;
  if (!config) return SHOAL_OOM();
  if (stat(config, &info) != 0) return NULL;
  return SHOAL_ERROR_HINT(UNSUPPORTED,
                          cli_format(w->arena, "shoal convert %s DIR, and --load DIR", folder),
                          "'%s' has weights by Hugging Face's names", w->load);
}

// Sizes that a checkpoint tells, before those of the command line.
static shoal_status_t create_zoo(writer_t *w) {
  cli_model_options_t options = w->command->model;
  cli_past_t past = {0};
  if (w->load) {
    SHOAL_RETURN_IF_ERROR(cli_past_open(w->load, w->arena, &past));
    if (!past.family) SHOAL_RETURN_IF_ERROR(check_names(w));
  } else if (w->talks) {
    fprintf(stderr, "shoal: warning: without --load the weights are random\n");
  }
  if (!w->name) w->name = past.family;
  if (!w->name) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "shoal generate MODEL --load DIR --prompt TEXT",
                            "generate needs the name of a model");
  }
  SHOAL_RETURN_IF_ERROR(cli_past_know(&past, w->name, &options));
  if (!options.config) options.known = past.settings;  // before a preset's too
  SHOAL_RETURN_IF_ERROR(cli_zoo_create(w->name, &options, NULL, &w->zoo));
  SHOAL_RETURN_IF_ERROR(cli_past_check(&past, w->name, w->zoo, false, w->arena));
  if (!shoal_zoo_has(w->zoo, "decode")) {
    return SHOAL_ERROR_HINT(UNSUPPORTED, "gpt2 and other decoders do",
                            "'%s' does not continue texts", w->name);
  }
  return NULL;
}

static shoal_status_t create_model(writer_t *w) {
  const cli_model_options_t options = w->command->model;
  SHOAL_RETURN_IF_ERROR(shoal_model_create(
      &(shoal_model_options_t){.seed = (uint64_t)options.seed, .mixed = options.mixed}, &w->model));
  int64_t longest = 1;
  for (int64_t i = 0; i < w->count; ++i) {
    if (w->prompts[i].count > longest) longest = w->prompts[i].count;
  }
  const int64_t rows = options.batch ? options.batch : w->count < MOST_ROWS ? w->count : MOST_ROWS;
  shoal_zoo_build_tokens(w->zoo, shoal_model_graph(w->model, "prefill"), "prefill", rows, longest);
  shoal_zoo_build(w->zoo, shoal_model_graph(w->model, "decode"), "decode", rows);
  return shoal_model_status(w->model);
}

static shoal_status_t open_session(writer_t *w, shoal_world_t *world) {
  const cli_plan_options_t *planning = &w->command->planning;
  shoal_parallelize_options_t options = {.world = world,
                                         .strategy = planning->strategy,
                                         .mesh = planning->mesh,
                                         .plan_name = planning->plan,
                                         .cluster = planning->cluster,
                                         .cache = cli_cache(planning, w->arena)};
  int64_t size;
  if (planning->plan)
    SHOAL_RETURN_IF_ERROR(shoal_file_read(planning->plan, w->arena, &options.plan, &size));
  SHOAL_RETURN_IF_ERROR(
      cli_layouts_parse(planning->layouts, w->arena, &options.layout_count, &options.layouts));
  SHOAL_RETURN_IF_ERROR(
      cli_decisions_parse(planning, w->arena, &options.decision_count, &options.decisions));
  options.choices = cli_choices(planning);
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(w->model, &options, &w->session));
  if (!w->load) return NULL;
  shoal_load_report_t report = {0};
  const shoal_load_options_t how = {.cast = true, .averages = !w->command->raw, .report = &report};
  SHOAL_RETURN_IF_ERROR(shoal_load_with(w->session, w->load, &how));
  if (w->talks) cli_past_say_averages(report.averages, w->command->raw);
  return NULL;
}

// ---- writing --------------------------------------------------------------------------

// A text that continues its prompt is written behind it, an answer to it alone.
static bool continues(const writer_t *w) {
  return shoal_zoo_setting(w->zoo, "target", w->arena) == NULL;
}

static bool is_stop(const writer_t *w, int32_t token) {
  for (int64_t i = 0; i < w->stop_count; ++i) {
    if (w->stops[i] == token) return true;
  }
  return false;
}

static bool write_token(void *self, int64_t prompt, int64_t index, int32_t token) {
  writer_t *w = self;
  if (!w->talks) return true;
  const bool last = index + 1 == w->command->max_tokens || is_stop(w, token);
  w->error = cli_stream_token(&w->stream, prompt, token, last);
  return !w->error;
}

// Texts that neither a stop nor --max-tokens ended.
static void say_cut(const writer_t *w, const shoal_tokens_t *texts) {
  int64_t cut = 0, first = 0;
  for (int64_t i = w->count; i-- > 0;) {
    if (texts[i].count == w->command->max_tokens || is_stop(w, texts[i].ids[texts[i].count - 1]))
      continue;
    ++cut;
    first = i;
  }
  if (cut == 0) return;
  fprintf(stderr,
          "shoal: warning: %lld of %lld texts end where the model's %lld positions are used up, "
          "before --max-tokens %lld\n",
          (long long)cut, (long long)w->count,
          (long long)((continues(w) ? w->prompts[first].count : 0) + texts[first].count),
          (long long)w->command->max_tokens);
}

static shoal_status_t generate(writer_t *w, shoal_world_t *world) {
  const generate_command_t *command = w->command;
  shoal_tokens_t *texts;
  SHOAL_RETURN_IF_ERROR(find_weights(w));
  SHOAL_RETURN_IF_ERROR(read_texts(w));
  SHOAL_RETURN_IF_ERROR(create_zoo(w));
  SHOAL_RETURN_IF_ERROR(open_tokenizer(w));
  SHOAL_RETURN_IF_ERROR(encode(w));
  SHOAL_RETURN_IF_ERROR(create_model(w));
  SHOAL_RETURN_IF_ERROR(open_session(w, world));
  SHOAL_RETURN_IF_ERROR(shoal_decoder_create(
      w->tokenizer, &(shoal_decode_options_t){.skip_special = true}, &w->decoder));
  w->stream = (cli_stream_t){.out = w->out,
                             .arena = w->arena,
                             .decoder = w->decoder,
                             .line_count = w->line_count,
                             .prompt_count = w->count,
                             .lines = w->texts,
                             .answers = !continues(w)};
  const shoal_generate_options_t options = {.max_tokens = command->max_tokens,
                                            .temperature = command->temperature,
                                            .top_k = command->top_k,
                                            .top_p = command->top_p,
                                            .repetition = command->repetition,
                                            .seed = (uint64_t)command->model.seed,
                                            .stop_count = w->stop_count,
                                            .stops = w->stops,
                                            .token = write_token,
                                            .token_self = w};
  shoal_status_t status =
      shoal_generate(w->session, w->count, w->prompts, &options, w->arena, &texts);
  if (!status) status = w->error, w->error = NULL;
  if (!status && w->talks) status = cli_stream_finish(&w->stream, texts);
  if (!status && w->talks) say_cut(w, texts);
  return status;
}

typedef struct generate_job {
  const generate_command_t *command;
  const char *name;
  FILE *out;
} generate_job_t;

static shoal_status_t generate_rank(void *self, shoal_world_t *world, int32_t rank) {
  const generate_job_t *job = self;
  writer_t w = {.command = job->command, .name = job->name, .out = job->out, .talks = rank == 0};
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(shoal_allocator_system(), &w.arena));
  shoal_status_t status = generate(&w, world);
  shoal_session_free(w.session);
  shoal_model_free(w.model);
  shoal_zoo_free(w.zoo);
  shoal_decoder_free(w.decoder);
  shoal_tokenizer_free(w.tokenizer);
  shoal_status_free(w.error);
  shoal_arena_free(w.arena);
  return status;
}

shoal_status_t cli_generate(int argc, char **argv, shoal_arena_t *arena, FILE *out) {
  generate_command_t command = {0};
  shoal_words_t words = {0};
  SHOAL_RETURN_IF_ERROR(cli_options("generate", "[MODEL]", table, TABLE_COUNT, argc, argv, arena,
                                    &command, &words, out));
  if (command.help) return NULL;
  if (words.count > 1) SHOAL_RETURN_IF_ERROR(cli_one_model(&words));
  SHOAL_RETURN_IF_ERROR(cli_plan_check(&command.planning));
  generate_job_t job = {&command, words.count ? words.items[0] : NULL, out};
  const cli_ranks_t ranks = {command.planning.ranks, cli_ranks_given(argc, argv), command.threads};
  return cli_ranks_run(&ranks, generate_rank, &job);
}
