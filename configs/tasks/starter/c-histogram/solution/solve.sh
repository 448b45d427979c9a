#!/bin/bash
set -e
cd /app
cat > histogram.c <<'END_OF_FILE'
#include <ctype.h>
#include <stdio.h>

int main(void) {
    long counts[26] = {0};
    int c;
    while ((c = getchar()) != EOF)
        if (isalpha(c) && c < 128) counts[tolower(c) - 'a']++;
    for (int i = 0; i < 26; i++) {
        if (!counts[i]) continue;
        printf("%c: ", 'a' + i);
        for (long n = 0; n < counts[i]; n++) putchar('*');
        putchar('\n');
    }
    return 0;
}
END_OF_FILE
