#!/bin/bash
set -e
cd /app
cat > average.py <<'END_OF_FILE'
def average_of_two(a, b):
    return (a + b) / 2
END_OF_FILE
