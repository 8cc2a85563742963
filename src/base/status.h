// Internal side of statuses: formatted creation. Only base creates variadic functions; they are
// hidden symbols and never part of the ABI.
#ifndef SHOAL_BASE_STATUS_H_
#define SHOAL_BASE_STATUS_H_

#include "shoal/base.h"

SHOAL_MUST_USE shoal_status_t shoal_status_format(shoal_code_t code, const char *file, int line,
                                                  const char *hint, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
SHOAL_MUST_USE shoal_status_t shoal_status_annotatef(shoal_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Who asks thousands of questions and reads none of the refusals is silent meanwhile: errors that
// the thread creates carry their code alone, and no text is written. Returns what was before.
bool shoal_status_silence(bool on);
bool shoal_status_is_silent(void);

// A status as bytes, for another process or rank: every byte of `buffer` is set, and a message that
// is too long for it is cut. OK packs too. A buffer has room for more than SHOAL_STATUS_PACKED_MIN.
#define SHOAL_STATUS_PACKED_MIN 1024
void shoal_status_pack(shoal_status_t status, char *buffer, size_t capacity);
SHOAL_MUST_USE shoal_status_t shoal_status_unpack(const char *buffer, size_t capacity);

// Inside the library a message may have any length.
#undef SHOAL_ERROR_HINT
#define SHOAL_ERROR_HINT(code, hint, ...) \
  shoal_status_format(SHOAL_##code, __FILE__, __LINE__, hint, __VA_ARGS__)

#endif  // SHOAL_BASE_STATUS_H_
