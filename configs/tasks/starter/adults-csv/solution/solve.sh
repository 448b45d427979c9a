#!/bin/bash
set -e
cd /app
echo name,city > adults.csv
tail -n +2 people.csv | while IFS=, read -r name age city; do
  if [ "$age" -ge 18 ]; then echo "$name,$city"; fi
done | sort >> adults.csv
