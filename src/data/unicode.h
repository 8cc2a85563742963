// Unicode, as far as tokenizers look at it: characters of UTF-8 and which class they are of.
#ifndef SHOAL_DATA_UNICODE_H_
#define SHOAL_DATA_UNICODE_H_

#include "shoal/base.h"

typedef enum shoal_class {
  SHOAL_CLASS_OTHER,
  SHOAL_CLASS_LETTER,  // \p{L}
  SHOAL_CLASS_NUMBER,  // \p{N}
  SHOAL_CLASS_SPACE    // \s, the property White_Space
} shoal_class_t;

typedef struct shoal_character {
  uint32_t code;   // U+FFFD when it is no character
  int32_t length;  // bytes of it; at least 1
  bool valid;      // it is a character; else bytes that no character begins with
  bool cut;        // the text ended inside it, all right so far
} shoal_character_t;

// The character that a text of at least one byte begins with. What is no UTF-8 is taken in the
// pieces that Unicode recommends to replace by one U+FFFD each (its "maximal subparts").
shoal_character_t shoal_utf8_read(const char *text, int64_t length);
// Writes a character; returns how many bytes, 1 to 4.
int32_t shoal_utf8_write(uint32_t code, char out[4]);

shoal_class_t shoal_unicode_class(uint32_t code);

#endif  // SHOAL_DATA_UNICODE_H_
