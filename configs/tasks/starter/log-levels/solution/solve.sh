#!/bin/bash
set -e
cd /app
python3 - <<'END_OF_SCRIPT'
import collections
import json

rows = [line.split(" ", 3) for line in open("server.log")]
levels = collections.Counter(row[2] for row in rows)
json.dump({**levels, "days": len({row[0] for row in rows})}, open("levels.json", "w"))
END_OF_SCRIPT
