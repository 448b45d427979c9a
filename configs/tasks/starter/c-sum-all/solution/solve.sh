#!/bin/bash
set -e
cd /app
cat > sum.c <<'END_OF_FILE'
#include <stdio.h>

int main(void) {
    long long total = 0, number;
    while (scanf("%lld", &number) == 1) total += number;
    printf("%lld\n", total);
    return 0;
}
END_OF_FILE
