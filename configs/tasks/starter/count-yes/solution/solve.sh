#!/bin/bash
set -e
cd /app
cat > votes.py <<'END_OF_FILE'
def count_yes(votes):
    return votes.count("yes")
END_OF_FILE
