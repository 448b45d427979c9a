#!/bin/bash
set -e
cd /app
cat > positive.py <<'END_OF_FILE'
def keep_positive(numbers):
    return [number for number in numbers if number > 0]
END_OF_FILE
