#!/bin/bash
set -e
cd /app
cat > backwards.py <<'END_OF_FILE'
def backwards(text):
    return text[::-1]
END_OF_FILE
