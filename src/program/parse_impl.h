// Reading a printed program, inside: tokens and tables (parse.c), classes (parse_class.c), orders
// (parse_order.c).
//
// Readers return false once the scan has an error: with line and column, and nothing they have read
// is used.
#ifndef SHOAL_PROGRAM_PARSE_IMPL_H_
#define SHOAL_PROGRAM_PARSE_IMPL_H_

#include "layout/intern.h"
#include "op/text.h"
#include "program/program_impl.h"

typedef struct parse {
  shoal_scan_t scan;
  const shoal_registry_t *registry;
  shoal_arena_t *arena;  // the program's
  shoal_program_t *program;
  shoal_layouts_t layouts;
  int64_t ranks;  // in the classes so far: never more than the world has
} parse_t;

bool shoal_parse_line_end(parse_t *p);  // and the blank lines behind it
bool shoal_parse_int(parse_t *p, const char *what, int64_t low, int64_t high, int64_t *out_value);
bool shoal_parse_int32(parse_t *p, const char *what, int64_t low, int64_t high, int32_t *out_value);
bool shoal_parse_index(parse_t *p, const char *what,
                       int64_t expected);  // the number that must come now
bool shoal_parse_layout(parse_t *p, const shoal_type_t *type, const shoal_layout_t **out_layout);

static inline bool shoal_parse_at_digit(parse_t *p) {
  return !shoal_scan_at_end(&p->scan) && *p->scan.at >= '0' && *p->scan.at <= '9';
}

bool shoal_parse_class(parse_t *p, int64_t index, shoal_class_t *out_class);  // "class" was read
// "order" was read; the class's segments are there.
bool shoal_parse_order(parse_t *p, const shoal_class_t *rank_class, shoal_order_t *out_order);

#endif  // SHOAL_PROGRAM_PARSE_IMPL_H_
