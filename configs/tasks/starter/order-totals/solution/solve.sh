#!/bin/bash
set -e
cd /app
python3 - <<'END_OF_SCRIPT'
import csv
import json

totals = {}
for order in json.load(open("orders.json")):
    row = totals.setdefault(order["customer"], [0, 0])
    row[0] += 1
    row[1] += sum(line["price"] * line["count"] for line in order["lines"])
with open("totals.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["customer", "orders", "cents"])
    for name, (orders, cents) in sorted(totals.items(), key=lambda item: -item[1][1]):
        writer.writerow([name, orders, cents])
END_OF_SCRIPT
