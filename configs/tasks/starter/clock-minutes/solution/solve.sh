#!/bin/bash
set -e
cd /app
cat > clock.py <<'END_OF_FILE'
def to_minutes(hours, minutes):
    return hours * 60 + minutes
END_OF_FILE
