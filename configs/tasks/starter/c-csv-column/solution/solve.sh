#!/bin/bash
set -e
cd /app
cat > column.c <<'END_OF_FILE'
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int wanted = argc > 1 ? atoi(argv[1]) : 1;
    int column = 1, quoted = 0, c, any = 0;
    while ((c = getchar()) != EOF) {
        any = 1;
        if (quoted) {
            if (c == '"') {
                int next = getchar();
                if (next != '"') {
                    quoted = 0;
                    ungetc(next, stdin);
                    continue;
                }
            }
            if (column == wanted) putchar(c);
        } else if (c == '"') {
            quoted = 1;
        } else if (c == ',') {
            column++;
        } else if (c == '\n') {
            putchar('\n');
            column = 1;
            any = 0;
        } else if (column == wanted) {
            putchar(c);
        }
    }
    if (any) putchar('\n');
    return 0;
}
END_OF_FILE
