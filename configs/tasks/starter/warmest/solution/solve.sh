#!/bin/bash
set -e
cd /app
cat > warmest.py <<'END_OF_FILE'
def warmest(temperatures):
    return max(temperatures)
END_OF_FILE
