#!/bin/bash
set -e
cd /app
cat > weekend.py <<'END_OF_FILE'
def is_weekend(day):
    return day in ("Saturday", "Sunday")
END_OF_FILE
