#!/bin/bash
set -e
cd /app
cat > lastword.py <<'END_OF_FILE'
def last_word(sentence):
    return sentence.split()[-1]
END_OF_FILE
