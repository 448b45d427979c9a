#!/bin/bash
set -e
cd /app
cat > wrap.py <<'END_OF_FILE'
def wrap(text, width):
    lines = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines
END_OF_FILE
