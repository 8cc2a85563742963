// Rules of the example calls that op records carry.
#include "op/case.h"
#include "base/arena.h"
#include "base/status.h"
#include "shoal/rules.h"

static shoal_status_t get(shoal_rules_t *rules, const shoal_op_t *op, const char *text,
                          shoal_arena_t *arena, const shoal_rule_t **out_rule) {
  shoal_case_t example;
  SHOAL_RETURN_IF_ERROR(shoal_case_parse(op, text, arena, &example));
  const shoal_call_t call = {.op = op,
                             .input_count = example.input_count,
                             .output_count = shoal_op_outputs(op, example.attrs),
                             .inputs = example.inputs,
                             .attrs = example.attrs};
  return shoal_rules_get(rules, &call, out_rule);
}

shoal_status_t shoal_rules_of_case(shoal_rules_t *rules, const shoal_op_t *op, const char *text,
                                   const shoal_rule_t **out_rule) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_status_t status = get(rules, op, text, &arena, out_rule);
  shoal_arena_deinit(&arena);
  return shoal_status_annotatef(status, "case \"%s\" of %s", text, op->name);
}
