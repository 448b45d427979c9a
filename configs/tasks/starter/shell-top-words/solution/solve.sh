#!/bin/bash
set -e
cd /app
cat > top.sh <<'END_OF_FILE'
#!/bin/bash
tr -cs 'A-Za-z' '\n' | tr A-Z a-z | grep . | sort | uniq -c | sort -k1,1nr -k2,2 | head -n 3 | sed 's/^ *//'
END_OF_FILE
