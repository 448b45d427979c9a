#!/bin/bash
set -e
cd /app
cat > welcome.c <<'END_OF_FILE'
#include <stdio.h>

int main(int argc, char **argv) {
    if (argc > 1) printf("Welcome, %s!\n", argv[1]);
    return 0;
}
END_OF_FILE
