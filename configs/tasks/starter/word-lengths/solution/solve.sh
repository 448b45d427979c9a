#!/bin/bash
set -e
cd /app
cat > lengths.py <<'END_OF_FILE'
def lengths(words):
    return [len(word) for word in words]
END_OF_FILE
