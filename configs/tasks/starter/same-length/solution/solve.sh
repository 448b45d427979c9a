#!/bin/bash
set -e
cd /app
cat > same.py <<'END_OF_FILE'
def same_length(a, b):
    return len(a) == len(b)
END_OF_FILE
