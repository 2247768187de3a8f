#!/bin/sh
# Fails when the order does not add up.
total=$(sh src/total.sh data/order.csv) || exit 1
if [ "$total" != 2160 ]; then
	echo "FAIL: the order adds up to ${total:-nothing}, want 2160"
	exit 1
fi
echo "PASS: $total"
