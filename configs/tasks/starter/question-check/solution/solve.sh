#!/bin/bash
set -e
cd /app
cat > question.py <<'END_OF_FILE'
def is_question(text):
    return text.endswith("?")
END_OF_FILE
