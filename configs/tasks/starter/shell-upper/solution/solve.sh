#!/bin/bash
set -e
cd /app
cat > upper.sh <<'END_OF_FILE'
#!/bin/bash
tr a-z A-Z
END_OF_FILE
