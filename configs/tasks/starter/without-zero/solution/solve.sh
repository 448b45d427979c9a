#!/bin/bash
set -e
cd /app
cat > nonzero.py <<'END_OF_FILE'
def without_zero(numbers):
    return [number for number in numbers if number != 0]
END_OF_FILE
