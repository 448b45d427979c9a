#!/bin/bash
set -e
cd /app
cat > reverse.c <<'END_OF_FILE'
#include <stdio.h>
#include <string.h>

int main(void) {
    char line[1100];
    if (!fgets(line, sizeof line, stdin)) line[0] = 0;
    size_t length = strcspn(line, "\n");
    while (length) putchar(line[--length]);
    putchar('\n');
    return 0;
}
END_OF_FILE
