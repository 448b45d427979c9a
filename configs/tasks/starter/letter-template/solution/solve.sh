#!/bin/bash
set -e
cd /app
sed -e 's/{name}/Mira/g' -e 's/{day}/Monday/g' -e 's/{room}/12/g' letter.txt > filled.txt
