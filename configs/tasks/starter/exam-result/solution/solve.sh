#!/bin/bash
set -e
cd /app
cat > exam.py <<'END_OF_FILE'
def result(score):
    return "pass" if score >= 50 else "fail"
END_OF_FILE
