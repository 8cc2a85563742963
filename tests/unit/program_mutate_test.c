// Mutations: every one is a program that parses and differs in what it says; nearly all are caught,
// and those that are not are listed here with the reason why they compute the same, or why only a
// run can tell.
#include "program/mutate.h"

#include "program_race.h"

// Why the static check lets a mutation through.
static const struct {
  const char *part, *why;
} survivors[] = {
    // the same result
    {"64 bytes more", "there is room behind it"},
    {"move buffer", "the bytes beside it are free, or not used any more"},
    {"move the workspace", "the bytes beside it are free, or not used any more"},
    {"halve the workspace", "another class needs the whole of it"},
    {"swap calls", "they do not depend on each other"},
    {"swap it with the next", "they do not depend on each other"},
    {"swap its first two inputs", "it is symmetric"},
    {"waits by", "what it waits for now comes later (brute force finds no race)"},
    {"put it on queue", "its waits order it there, too (brute force finds no race)"},
    {"takes lane", "it is alone on its lane, or all lanes are on one queue"},
    // another result: `shoal check` tells
    {"'w': drop it", "the state keeps its old value"},
    {"'g': drop it", "the accumulator keeps its first value"},
    {"'t': drop it", "the accumulator keeps its first value"},
    {"fill with another value", "any first value is one"},
    {"change attribute", "any number is one"},
    {"do it always", "the state takes its next value in every step"},
};

static bool is_listed(const char *description) {
  for (size_t i = 0; i < sizeof survivors / sizeof *survivors; ++i) {
    if (strstr(description, survivors[i].part)) return true;
  }
  return false;
}

static void mutants_are_caught(void **state) {
  (void)state;
  static const char *const programs[] = {TRAIN, STAGES, GUARDED, PIPELINE, OFFLOADED};
  // Of these kinds not one may live.
  static const char *const deadly[] = {"do it twice",         "do not wait for",   "use channel",
                                       "the reduction",       "64 bytes less",     "take the slots",
                                       "drop call",           "drop the last cut", "one slot less",
                                       "does not wait by",    "in all steps",      "names slot",
                                       "which is read later", "in host memory"};
  enum { DEADLY = sizeof deadly / sizeof *deadly };
  // Of these some do.
  static const char *const dangerous[] = {"waits by", "put it on queue", "takes lane",
                                          "swap calls"};
  enum { DANGEROUS = sizeof dangerous / sizeof *dangerous };
  int64_t met[DEADLY] = {0}, refused[DANGEROUS] = {0}, races = 0, always = 0;
  shoal_registry_t *registry = test_registry();
  for (size_t p = 0; p < sizeof programs / sizeof *programs; ++p) {
    shoal_program_t *program = NULL;
    assert_ok(shoal_program_parse("p", programs[p], registry, shoal_allocator_system(), &program));
    int64_t count = shoal_program_mutations(program), alive = 0;
    for (int64_t i = 0; i < count; ++i) {
      shoal_arena_t arena;
      shoal_arena_init(shoal_allocator_system(), &arena);
      shoal_mutation_t mutation;
      shoal_program_t *mutant = NULL;
      assert_ok(shoal_program_mutate(program, i, &arena, &mutation));
      const char *text = mutation.text, *description = mutation.description;
      assert_string_not_equal(text, programs[p]);
      assert_ok(shoal_program_parse("mutant", text, registry, shoal_allocator_system(), &mutant));
      shoal_status_t status = shoal_program_check(mutant, shoal_allocator_system());
      if (status && shoal_status_code(status) != SHOAL_MISMATCH) {
        fail_msg("%s: %s", description, shoal_status_message(status));
      }
      if (!status && !is_listed(description)) fail_msg("program %zu: %s: lives", p, description);
      for (int d = 0; d < DEADLY; ++d) {
        if (!strstr(description, deadly[d])) continue;
        ++met[d];
        if (!status) fail_msg("program %zu: %s: lives", p, description);
      }
      for (int d = 0; d < DANGEROUS; ++d) {
        refused[d] += status && strstr(description, dangerous[d]);
      }
      // The verdict on races is exact.
      const bool raced = status && strstr(shoal_status_message(status), "nothing orders the two");
      if ((!status || raced) && has_race(mutant) != raced) {
        fail_msg("program %zu: %s: %s, but brute force says otherwise", p, description,
                 status ? shoal_status_message(status) : "passes");
      }
      races += raced;
      always += strstr(description, "do it always") != NULL;
      alive += !status;
      shoal_status_free(status);
      shoal_program_free(mutant);
      shoal_arena_deinit(&arena);
    }
    assert_true(alive * 3 < count);
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    const char *text;
    shoal_mutation_t none;
    assert_error(NOT_FOUND, "there is no number",
                 shoal_program_mutate(program, count, &arena, &none));
    assert_ok(shoal_program_print(program, &arena, &text));
    assert_string_equal(text, programs[p]);  // the program itself is as it was
    shoal_arena_deinit(&arena);
    shoal_program_free(program);
  }
  for (int d = 0; d < DEADLY; ++d) {
    if (met[d] == 0) fail_msg("no mutation '%s'", deadly[d]);
  }
  for (int d = 0; d < DANGEROUS; ++d) {
    if (refused[d] == 0) fail_msg("each '%s' lives", dangerous[d]);
  }
  assert_true(races > 50);
  assert_true(always > 0);
  shoal_registry_release(registry);
}

// A dropped instruction hands its waits on: nothing but the instruction is missing.
static void waits_follow_their_instructions(void **state) {
  (void)state;
  static const struct {
    const char *description, *line;
  } cases[] = {
      {"segment 2 'train.loop', instruction 1 compute 'y': drop it",
       "    1 comm reshard (3) -> (8) channel 1 \"y\" workspace 192@512 wait 0\n"},
      {"segment 2 'train.loop', instruction 0 feed 'x': drop it",
       "    0 compute compute shoal.mul (2, 0) -> (3) \"y\"\n"},
      {"segment 2 'train.loop', instruction 2 reshard 'y': do it twice",
       "    6 copy copy (8) -> (9) \"y\" wait 3\n"},
      {"segment 2 'train.loop', instruction 2 reshard 'y': swap it with the next",
       "    5 copy copy (8) -> (9) \"y\" wait 3\n"},
      {"segment 2 'train.loop', instruction 1 compute 'y': swap it with the next",
       "    1 comm reshard (3) -> (8) channel 1 \"y\" workspace 192@512\n"},
      {"segment 3 'train.after', instruction 0 reshard 'g': drop it",
       "    1 copy fetch (6) \"g\"\n"},
  };
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = NULL;
  assert_ok(shoal_program_parse("p", TRAIN, registry, shoal_allocator_system(), &program));
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    bool found = false;
    for (int64_t i = 0; i < shoal_program_mutations(program) && !found; ++i) {
      shoal_arena_t arena;
      shoal_arena_init(shoal_allocator_system(), &arena);
      shoal_mutation_t mutation;
      assert_ok(shoal_program_mutate(program, i, &arena, &mutation));
      found = strstr(mutation.description, cases[k].description) != NULL;
      if (found && !strstr(mutation.text, cases[k].line))
        fail_msg("no '%s' in %s", cases[k].line, mutation.text);
      shoal_arena_deinit(&arena);
    }
    if (!found) fail_msg("no mutation '%s'", cases[k].description);
  }
  shoal_program_free(program);
  shoal_registry_release(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mutants_are_caught),
      cmocka_unit_test(waits_follow_their_instructions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
