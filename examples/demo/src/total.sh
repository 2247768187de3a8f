#!/bin/sh
# total.sh FILE: adds up an order. Each line is: item,price in cents,pieces
awk -F, 'NF == 3 { sum += $2 * $3 } END { printf "%d\n", sum }' "${1:?file}"
