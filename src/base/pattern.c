// Patterns of names: "block*/attn*", where '*' matches anything, or a regular expression behind
// "re:", "re:block[0-3]/.*" (POSIX, extended), which must match the whole name. Expressions are
// compiled anew for every name: patterns are tried thousands of times, not millions.
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

enum { LONGEST_REGEX = 500 };

static const char *regex_of(const char *pattern) {
  return strncmp(pattern, "re:", 3) == 0 ? pattern + 3 : NULL;
}

// 0, or an error of regcomp. The caller frees *out_regex if it is 0.
static int compile(const char *expression, regex_t *out_regex) {
  char whole[LONGEST_REGEX + 8];
  if (strlen(expression) > LONGEST_REGEX) return REG_ESPACE;
  snprintf(whole, sizeof whole, "^(%s)$", expression);
  return regcomp(out_regex, whole, REG_EXTENDED | REG_NOSUB);
}

bool shoal_pattern_is(const char *text) {
  return regex_of(text) || strchr(text, '*');
}

// Behind the set that begins at '[': "[]a]" and "[^]a]" hold a ']', "[[:alpha:]]" a class.
static const char *skip_set(const char *at) {
  at += at[1] == '^' ? 2 : 1;
  if (*at == ']') ++at;
  while (*at && *at != ']') {
    const char *end = *at == '[' && at[1] == ':' ? strstr(at + 2, ":]") : NULL;
    at = end ? end + 2 : at + 1;
  }
  return *at ? at + 1 : at;
}

size_t shoal_pattern_length(const char *list) {
  if (!regex_of(list)) return strcspn(list, ",");
  const char *at = list;
  int depth = 0;
  while (*at && (*at != ',' || depth > 0)) {
    if (*at == '[') {
      at = skip_set(at);
      continue;
    }
    if (*at == '\\' && at[1]) {
      at += 2;
      continue;
    }
    if (*at == '(' || *at == '{') ++depth;
    if (*at == ')' || *at == '}') --depth;
    ++at;
  }
  return (size_t)(at - list);
}

shoal_status_t shoal_pattern_check(const char *pattern) {
  const char *expression = regex_of(pattern);
  if (!expression) return NULL;
  regex_t regex;
  char reason[128];
  // By itself: "a)(b" would be one inside of the brackets that make it match whole names.
  int error = regcomp(&regex, expression, REG_EXTENDED | REG_NOSUB);
  if (error == 0) regfree(&regex), error = compile(expression, &regex);
  if (error == 0) {
    regfree(&regex);
    return NULL;
  }
  regerror(error, &regex, reason, sizeof reason);
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          "as in 're:block[0-3]/.*'; without 're:', '*' matches anything",
                          "'%s' is no regular expression: %s", expression, reason);
}

bool shoal_pattern_match(const char *pattern, const char *name) {
  const char *star = NULL, *retry = NULL;  // last '*' and where its match began
  if (regex_of(pattern)) {
    regex_t regex;
    if (compile(regex_of(pattern), &regex) != 0) return false;
    const bool match = regexec(&regex, name, 0, NULL, 0) == 0;
    regfree(&regex);
    return match;
  }
  while (*name) {
    if (*pattern == '*') {
      star = ++pattern;
      retry = name;
    } else if (*pattern == *name) {
      ++pattern, ++name;
    } else if (star) {
      pattern = star;
      name = ++retry;
    } else {
      return false;
    }
  }
  while (*pattern == '*') ++pattern;
  return !*pattern;
}
