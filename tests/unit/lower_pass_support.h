// What tests of a pass share: its text, parts of texts, texts with a fault in them, and programs
// that must be refused.
#ifndef SHOAL_TESTS_UNIT_LOWER_PASS_SUPPORT_H_
#define SHOAL_TESTS_UNIT_LOWER_PASS_SUPPORT_H_

#include "plan_fixture.h"

// (Inlined, the compiler takes the text for the variable that held it.)
__attribute__((noinline)) static const char *explain_pass(const shoal_plan_t *plan,
                                                          const char *pass, shoal_arena_t *arena) {
  const char *text = NULL;
  assert_ok(shoal_lower_explain(plan, NULL, pass, arena, &text));
  return text;
}

static inline void expect_part(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("no '%s' in:\n%s", part, text);
}

// How often a part occurs.
static inline int64_t count_parts(const char *text, const char *part) {
  int64_t count = 0;
  for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) ++count;
  return count;
}

// The text with the first `from` at or behind `at`, a place in it, replaced.
static inline const char *edit(const char *text, const char *at, const char *from, const char *to,
                               shoal_arena_t *arena) {
  const char *found = at ? strstr(at, from) : NULL;
  if (!found) fail_msg("no '%s' to edit in:\n%s", from, text);
  return shoal_arena_printf(arena, "%.*s%s%s", (int)(found - text), text, to, found + strlen(from));
}

// A plan file for two ranks.
static inline shoal_status_t parse(const char *text, const shoal_model_t *model,
                                   shoal_plan_t **out_plan) {
  return shoal_plan_parse("p", text, model, rules, 2, shoal_allocator_system(), NULL, out_plan);
}

// The program's text, which reads back as the same program, and as a right one.
__attribute__((noinline)) static const char *print_and_read(const shoal_program_t *program,
                                                            shoal_registry_t *registry,
                                                            shoal_arena_t *arena) {
  const char *text, *again;
  shoal_program_t *parsed;
  assert_ok(shoal_program_print(program, arena, &text));
  assert_ok(shoal_program_parse("p", text, registry, shoal_allocator_system(), &parsed));
  assert_ok(shoal_program_check(parsed, shoal_allocator_system()));
  assert_ok(shoal_program_print(parsed, arena, &again));
  assert_string_equal(text, again);
  shoal_program_free(parsed);
  return text;
}

static inline void expect_refused(const char *text, shoal_registry_t *registry,
                                  const char *message) {
  shoal_program_t *program = NULL;
  shoal_status_t status =
      shoal_program_parse("p", text, registry, shoal_allocator_system(), &program);
  if (!status) status = shoal_program_check(program, shoal_allocator_system());
  if (!status) fail_msg("'%s' is not said", message);
  if (!strstr(shoal_status_message(status), message))
    fail_msg("'%s' does not say '%s'", shoal_status_message(status), message);
  shoal_status_free(status);
  shoal_program_free(program);
}

#endif  // SHOAL_TESTS_UNIT_LOWER_PASS_SUPPORT_H_
