#!/bin/bash
set -e
cd /app
cat > dashed.py <<'END_OF_FILE'
def dashed(text):
    return text.replace(" ", "-")
END_OF_FILE
