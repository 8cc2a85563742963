// The loop of generation: one prefill for R prompts, then a decode for every further token. Rows
// whose text has ended, and rows without a prompt, go on with token 0 at their last position:
// nobody looks at what they give, and other rows do not see them. A decoder alone counts positions
// from the prompt's first token; beside an encoder, which has read the prompt, from the token that
// prefill began the answer with.
#include <string.h>

#include "base/arena.h"
#include "base/status.h"
#include "generate/sample.h"
#include "shoal/program.h"

typedef struct row {
  int64_t prompt;     // -1: none
  int32_t *ids;       // prompt and text
  int64_t start, at;  // tokens of the prompt; of both so far
  bool ended;
} row_t;

typedef struct generator {
  shoal_session_t *session;
  const shoal_generate_options_t *options;
  int64_t rows, prompt, positions, vocabulary;  // of a prompt; of a prompt and its text
  bool encodes;                                 // positions are of the text alone
  shoal_dtype_t dtype;                          // of logits
  int32_t *ids, *numbers, *tokens;
  char *logits;
  row_t *row;
  shoal_arena_t scratch;
} generator_t;

// ---- sizes ----------------------------------------------------------------------------

static const shoal_program_port_t *find_port(const shoal_session_t *session, bool input,
                                             const char *graph, const char *name) {
  const shoal_program_t *program = shoal_session_program(session);
  const int64_t count = input ? program->input_count : program->output_count;
  for (int64_t i = 0; i < count; ++i) {
    const shoal_program_port_t *port = input ? &program->inputs[i] : &program->outputs[i];
    if (strcmp(port->graph, graph) == 0 && strcmp(port->name, name) == 0) return port;
  }
  return NULL;
}

// How many positions the model remembers: dim 2 of states of this name, which its attention keeps.
static int64_t remembered(const shoal_session_t *session, const char *wanted) {
  const shoal_program_t *program = shoal_session_program(session);
  for (int64_t i = 0; i < program->state_count; ++i) {
    const shoal_program_state_t *state = &program->states[i];
    const char *name = strrchr(state->name, '/');
    if (name && strcmp(name + 1, wanted) == 0 && state->type.shape.rank == 4)
      return state->type.shape.dims[2];
  }
  return 0;
}

static bool is_shape(const shoal_program_port_t *port, int64_t rows, int64_t size) {
  const shoal_shape_t *shape = &port->type.shape;
  return shape->rank == (size ? 2 : 1) && shape->dims[0] == rows &&
         (!size || shape->dims[1] == size);
}

static shoal_status_t read_sizes(generator_t *g) {
  const shoal_program_port_t *ids = find_port(g->session, true, "prefill", "ids");
  const shoal_program_port_t *lengths = find_port(g->session, true, "prefill", "lengths");
  const shoal_program_port_t *first = find_port(g->session, false, "prefill", "logits");
  const shoal_program_port_t *next = find_port(g->session, true, "decode", "ids");
  const shoal_program_port_t *positions = find_port(g->session, true, "decode", "positions");
  const shoal_program_port_t *logits = find_port(g->session, false, "decode", "logits");
  if (!ids || !lengths || !first || !next || !positions || !logits) {
    return SHOAL_ERROR_HINT(NOT_FOUND, "build both with shoal_zoo_build",
                            "the model has no graphs \"prefill\" and \"decode\" to generate with");
  }
  if (ids->type.shape.rank == 2) {
    g->rows = ids->type.shape.dims[0];
    g->prompt = ids->type.shape.dims[1];
    g->positions = remembered(g->session, "cache_k");
    g->encodes = remembered(g->session, "memory_k") > 0;
  }
  if (logits->type.shape.rank == 2) g->vocabulary = logits->type.shape.dims[1];
  g->dtype = logits->type.dtype;
  if (g->rows > 0 && g->positions >= (g->encodes ? 1 : g->prompt) &&
      is_shape(lengths, g->rows, 0) && is_shape(next, g->rows, 1) &&
      is_shape(positions, g->rows, 0) && is_shape(first, g->rows, g->vocabulary) &&
      is_shape(logits, g->rows, g->vocabulary) && first->type.dtype == g->dtype) {
    return NULL;
  }
  return SHOAL_ERROR(INVALID_ARGUMENT,
                     "the graphs \"prefill\" and \"decode\" differ in rows or vocabulary, or "
                     "remember nothing");
}

static shoal_status_t check_prompts(const generator_t *g, int64_t count,
                                    const shoal_tokens_t *prompts) {
  for (int64_t i = 0; i < count; ++i) {
    const bool fits = g->encodes || g->prompt < g->positions;
    const int64_t most = fits ? g->prompt : g->positions - 1;
    if (prompts[i].count < 1 || prompts[i].count > most) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "build the model with more positions (context)",
                              "prompt %lld has %lld tokens; from 1 up to %lld fit", (long long)i,
                              (long long)prompts[i].count, (long long)most);
    }
    for (int64_t t = 0; t < prompts[i].count; ++t) {
      if (prompts[i].ids[t] >= 0 && prompts[i].ids[t] < g->vocabulary) continue;
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "is it the model's tokenizer?",
                              "prompt %lld has the token %d; the model knows %lld", (long long)i,
                              prompts[i].ids[t], (long long)g->vocabulary);
    }
  }
  return NULL;
}

// ---- one batch of rows ----------------------------------------------------------------

static bool stops(const generator_t *g, int32_t token) {
  for (int64_t i = 0; i < g->options->stop_count; ++i) {
    if (g->options->stops[i] == token) return true;
  }
  return false;
}

// Adds a token to each row that goes on; *out_left says how many do.
static shoal_status_t take(generator_t *g, int64_t *out_left) {
  const size_t bytes = (size_t)(g->rows * g->vocabulary) * shoal_dtype_size(g->dtype);
  SHOAL_RETURN_IF_ERROR(shoal_fetch(g->session, "logits", g->logits, bytes));
  *out_left = 0;
  for (int64_t r = 0; r < g->rows; ++r) {
    row_t *row = &g->row[r];
    if (row->ended) continue;
    const size_t offset = (size_t)(r * g->vocabulary) * shoal_dtype_size(g->dtype);
    const shoal_tensor_t logits = {g->logits + offset, g->dtype, SHOAL_SHAPE(g->vocabulary)};
    const int64_t index = row->at - row->start, from = g->encodes ? row->start : 0;
    const shoal_tokens_t before = {row->ids + from, row->at - from};
    int32_t token = 0;
    SHOAL_RETURN_IF_ERROR(
        shoal_sample_in(&g->scratch, &logits, &before, g->options, row->prompt, index, &token));
    shoal_arena_clear(&g->scratch);
    row->ids[row->at++] = token;
    const int64_t most = g->options->max_tokens;
    row->ended =
        stops(g, token) || row->at - from == g->positions || (most > 0 && index + 1 == most);
    if (g->options->token && !g->options->token(g->options->token_self, row->prompt, index, token))
      row->ended = true;
    if (!row->ended) ++*out_left;
  }
  return NULL;
}

static shoal_status_t prefill(generator_t *g) {
  const size_t rows = (size_t)g->rows, all = rows * (size_t)g->prompt;
  memset(g->ids, 0, all * sizeof *g->ids);
  for (int64_t r = 0; r < g->rows; ++r) {
    const row_t *row = &g->row[r];
    g->numbers[r] = row->prompt < 0 ? 1 : (int32_t)row->start;
    if (row->prompt < 0) continue;
    memcpy(g->ids + r * g->prompt, row->ids, (size_t)row->start * sizeof *g->ids);
  }
  SHOAL_RETURN_IF_ERROR(shoal_feed(g->session, "ids", g->ids, all * sizeof *g->ids));
  SHOAL_RETURN_IF_ERROR(shoal_feed(g->session, "lengths", g->numbers, rows * sizeof *g->numbers));
  return shoal_run(g->session, "prefill");
}

static shoal_status_t decode(generator_t *g) {
  const size_t rows = (size_t)g->rows;
  for (int64_t r = 0; r < g->rows; ++r) {
    const row_t *row = &g->row[r];
    const bool goes = !row->ended;
    g->tokens[r] = goes ? row->ids[row->at - 1] : 0;
    const int64_t place = g->encodes ? row->at - row->start : row->at - 1;
    g->numbers[r] = (int32_t)(goes ? place : g->positions - 1);
  }
  SHOAL_RETURN_IF_ERROR(shoal_feed(g->session, "ids", g->tokens, rows * sizeof *g->tokens));
  SHOAL_RETURN_IF_ERROR(shoal_feed(g->session, "positions", g->numbers, rows * sizeof *g->numbers));
  return shoal_run(g->session, "decode");
}

static shoal_status_t generate_batch(generator_t *g) {
  int64_t left = 0;
  SHOAL_RETURN_IF_ERROR(prefill(g));
  SHOAL_RETURN_IF_ERROR(take(g, &left));
  while (left > 0) {
    SHOAL_RETURN_IF_ERROR(decode(g));
    SHOAL_RETURN_IF_ERROR(take(g, &left));
  }
  return NULL;
}

// ---- all prompts ----------------------------------------------------------------------

static shoal_status_t allocate(generator_t *g, shoal_arena_t *scratch) {
  g->ids = SHOAL_NEW(scratch, int32_t, g->rows * g->prompt);
  g->numbers = SHOAL_NEW(scratch, int32_t, g->rows);
  g->tokens = SHOAL_NEW(scratch, int32_t, g->rows);
  g->row = SHOAL_NEW(scratch, row_t, g->rows);
  g->logits =
      shoal_arena_alloc(scratch, (size_t)(g->rows * g->vocabulary), shoal_dtype_size(g->dtype));
  return g->ids && g->numbers && g->tokens && g->row && g->logits ? NULL : SHOAL_OOM();
}

static shoal_status_t generate(generator_t *g, int64_t count, const shoal_tokens_t *prompts,
                               shoal_arena_t *scratch, shoal_arena_t *arena,
                               shoal_tokens_t *texts) {
  SHOAL_RETURN_IF_ERROR(allocate(g, scratch));
  for (int64_t first = 0; first < count; first += g->rows) {
    for (int64_t r = 0; r < g->rows; ++r) {
      row_t *row = &g->row[r];
      const bool used = first + r < count;
      *row = (row_t){.prompt = used ? first + r : -1, .ended = !used};
      if (!used) continue;
      row->start = row->at = prompts[first + r].count;
      row->ids = SHOAL_NEW(arena, int32_t, g->positions + (g->encodes ? row->start : 0));
      if (!row->ids) return SHOAL_OOM();
      memcpy(row->ids, prompts[first + r].ids, (size_t)row->start * sizeof *row->ids);
    }
    SHOAL_RETURN_IF_ERROR(generate_batch(g));
    for (int64_t r = 0; r < g->rows && first + r < count; ++r) {
      const row_t *row = &g->row[r];
      texts[first + r] = (shoal_tokens_t){row->ids + row->start, row->at - row->start};
    }
  }
  return NULL;
}

shoal_status_t shoal_generate(shoal_session_t *session, int64_t count,
                              const shoal_tokens_t *prompts,
                              const shoal_generate_options_t *options, shoal_arena_t *arena,
                              shoal_tokens_t **out_texts) {
  static const shoal_generate_options_t defaults;
  generator_t g = {.session = session, .options = options ? options : &defaults};
  *out_texts = NULL;
  if (count < 0 || (count > 0 && !prompts))
    return SHOAL_ERROR(INVALID_ARGUMENT, "there are no prompts");
  SHOAL_RETURN_IF_ERROR(read_sizes(&g));
  SHOAL_RETURN_IF_ERROR(check_prompts(&g, count, prompts));
  shoal_tokens_t *texts = SHOAL_NEW(arena, shoal_tokens_t, count);
  if (!texts) return SHOAL_OOM();
  shoal_arena_t scratch;
  const shoal_allocator_t allocator =
      g.options->allocator.alloc ? g.options->allocator : shoal_allocator_system();
  shoal_arena_init(allocator, &scratch);
  shoal_arena_init(allocator, &g.scratch);
  shoal_status_t status = generate(&g, count, prompts, &scratch, arena, texts);
  shoal_arena_deinit(&g.scratch);
  shoal_arena_deinit(&scratch);
  if (!status) *out_texts = texts;
  return status;
}
