// Unicode's normalization form C: characters composed as far as they can be (UAX #15), by the
// tables of Unicode 9, as Hugging Face's tokenizers do it: later marks are left where they are.
#ifndef SHOAL_DATA_NORMAL_H_
#define SHOAL_DATA_NORMAL_H_

#include "data/buffer.h"

// Appends the text in form C; `codes` is scratch. Bytes that are no UTF-8 stay as they are. False
// when memory is short.
bool shoal_nfc(shoal_allocator_t allocator, const char *text, int64_t length, shoal_buffer_t *codes,
               shoal_buffer_t *out);

#endif  // SHOAL_DATA_NORMAL_H_
