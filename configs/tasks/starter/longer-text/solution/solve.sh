#!/bin/bash
set -e
cd /app
cat > longer.py <<'END_OF_FILE'
def longer(a, b):
    return a if len(a) >= len(b) else b
END_OF_FILE
