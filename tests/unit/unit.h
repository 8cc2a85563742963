// What every unit test includes: cmocka with its prerequisites, and assertions on statuses.
#ifndef SHOAL_TESTS_UNIT_H_
#define SHOAL_TESTS_UNIT_H_

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
// clang-format on

#include "shoal/base.h"

// The expression must succeed; otherwise its message is the test's failure.
#define assert_ok(expr)                                            \
  do {                                                             \
    shoal_status_t assert_status_ = (expr);                        \
    if (assert_status_) {                                          \
      fail_msg("%s:%d: %s: %s", shoal_status_file(assert_status_), \
               shoal_status_line(assert_status_),                  \
               shoal_code_name(shoal_status_code(assert_status_)), \
               shoal_status_message(assert_status_));              \
    }                                                              \
  } while (0)

// The expression must fail with `code` (INVALID_ARGUMENT, ...) and a message or hint that contains
// `part`.
#define assert_error(code, part, expr)                                                   \
  do {                                                                                   \
    shoal_status_t assert_status_ = (expr);                                              \
    if (!assert_status_) fail_msg("succeeded: " #expr);                                  \
    if (shoal_status_code(assert_status_) != SHOAL_##code ||                             \
        (!strstr(shoal_status_message(assert_status_), (part)) &&                        \
         !strstr(shoal_status_hint(assert_status_), (part)))) {                          \
      fail_msg("expected " #code " '%s', got %s: %s (hint: %s)", (part),                 \
               shoal_code_name(shoal_status_code(assert_status_)),                       \
               shoal_status_message(assert_status_), shoal_status_hint(assert_status_)); \
    }                                                                                    \
    shoal_status_free(assert_status_);                                                   \
  } while (0)

// Sanitizers make everything some ten times slower: tests that go over all there is take a sample.
#if defined(SHOAL_SANITIZE_ADDRESS) || defined(SHOAL_SANITIZE_UNDEFINED) || \
    defined(SHOAL_SANITIZE_THREAD)
enum { UNIT_SAMPLES = 1 };
#else
enum { UNIT_SAMPLES = 0 };
#endif

#endif  // SHOAL_TESTS_UNIT_H_
