#!/bin/bash
set -e
cd /app
cat > commas.py <<'END_OF_FILE'
def join_words(words):
    return ", ".join(words)
END_OF_FILE
