#!/bin/bash
set -e
cd /app
cat > lines.sh <<'END_OF_FILE'
#!/bin/bash
wc -l < "$1" | tr -d ' '
END_OF_FILE
