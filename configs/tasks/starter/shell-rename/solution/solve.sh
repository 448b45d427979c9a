#!/bin/bash
set -e
cd /app
cat > rename.sh <<'END_OF_FILE'
#!/bin/bash
for path in *.txt; do
  [ -f "$path" ] || continue
  if [ -e "${path%.txt}.md" ]; then
    echo "skipped $path"
  else
    mv -- "$path" "${path%.txt}.md"
  fi
done
exit 0
END_OF_FILE
