#!/bin/bash
set -e
cd /app
cat > double.py <<'END_OF_FILE'
def double_all(numbers):
    return [number * 2 for number in numbers]
END_OF_FILE
