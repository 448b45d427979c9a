#!/bin/bash
set -e
cd /app
cat > repeat.py <<'END_OF_FILE'
def repeat(text, n):
    return text * n
END_OF_FILE
